// `weft sample`: text from a checkpoint, on one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "train/sampling.hpp"

namespace weft::train {

struct GenerateOptions {
  std::string checkpoint;  ///< a checkpoint's directory, or a directory of checkpoints (the newest whole one)
  std::string tokenizer;   ///< "byte" or a SentencePiece model
  std::string prompt;
  std::int64_t tokens = 128;  ///< at most so many new ones; an end-of-document token ends the text, too
  std::uint64_t seed = 1;
  SamplingOptions sampling;
};

/// Calls `print` with the prompt and then each piece of text as it is made. The whole context is computed for
/// every token: the plan has one shape, data.seq. Throws Error on a checkpoint or tokenizer that cannot be
/// used.
void generate(const GenerateOptions& options, const std::function<void(std::string_view)>& print);

}  // namespace weft::train
