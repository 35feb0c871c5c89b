// The sizes that kernels and tables can hold (base/limits.hpp), as checks of a deck.
#pragma once

#include "deck/deck.hpp"
#include "deck/problems.hpp"

namespace weft::deck {

/// Adds a problem, with the nearest value that works, for each size that is too large. The deck's keys are in
/// their ranges, and its heads divide.
void check_limits(const Deck& deck, Problems& problems);

/// Throws Error(bad_input) when the graph of so many rounds of accumulation has more values than numbers.
void check_rounds(const Deck& deck, std::int64_t rounds, std::int64_t round_sequences);

/// The head count nearest to the deck's that its kernels take: it divides dim / 2, and its heads are not too
/// wide. 0: there is none.
std::int64_t nearest_heads(const ModelDeck& model);

}  // namespace weft::deck
