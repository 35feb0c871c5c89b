// Makes text from a checkpoint, for `weft sample`.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "comm/world.hpp"
#include "train/sampling.hpp"

namespace weft::train {

struct GenerateOptions {
  std::string checkpoint;  ///< the directory of a checkpoint, or of many (then the newest whole one is used)
  std::string tokenizer;   ///< "byte", or the path of a SentencePiece model or a tokenizer.json
  std::string end_of_document;  ///< the token of a tokenizer.json that ends documents; empty: the file tells
  std::string prompt;
  std::int64_t tokens = 128;  ///< the most new tokens; an end-of-document token ends the text earlier
  std::uint64_t seed = 1;
  SamplingOptions sampling;
  int tensor = 1;   ///< how many ranks share each layer
  int context = 1;  ///< how many ranks share each sequence
};

/// Fills a sequence with the last of the context's tokens, and their positions: as training numbered them,
/// which with document_mask was from 0 again behind each `end_of_document`. Returns how many of the context
/// there are. `tokens` and `positions` have the same length.
std::size_t fill_window(std::span<const std::int32_t> context, std::optional<std::int32_t> end_of_document,
                        std::span<std::int32_t> tokens, std::span<std::int32_t> positions);

/// Collective: calls `print` on rank 0 with the prompt and then with each piece of text as it is made. The
/// ranks are the stages of a pipe, so each has some of the model's layers, and of these a part where several
/// share each layer, of a part of each sequence where several share that. The text is the same for any number
/// of stages. The whole context is computed for every token, because the plan has one shape, data.seq. Throws
/// Error on a checkpoint or tokenizer that cannot be used. `on_error` is called with what ends it once there
/// is a model, before that is taken down; it may throw another exception instead.
void generate(const GenerateOptions& options, comm::World& world,
              const std::function<void(std::string_view)>& print,
              const std::function<void(const std::exception&)>& on_error = {});

}  // namespace weft::train
