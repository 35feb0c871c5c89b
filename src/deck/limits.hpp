// Checks that a deck's sizes are not larger than kernels and tables can hold (base/limits.hpp).
#pragma once

#include "deck/deck.hpp"
#include "deck/problems.hpp"

namespace weft::deck {

/// Adds a problem, with the nearest value that works, for each size that is too large. Call it for a deck
/// whose keys are in their ranges, and whose heads divide its width.
void check_limits(const Deck& deck, Problems& problems);

/// Throws Error(bad_input) when the graph of this many accumulation rounds has more values than there are
/// numbers.
void check_rounds(const Deck& deck, std::int64_t rounds, std::int64_t round_sequences);

/// The head count nearest to the deck's that its kernels take: it divides dim / 2, and its heads are not too
/// wide. 0 when there is none.
std::int64_t nearest_heads(const ModelDeck& model);

}  // namespace weft::deck
