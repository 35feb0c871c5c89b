// Computes the loss of a checkpoint over token files, for `weft eval`.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "train/validation.hpp"

namespace weft::train {

struct EvaluateOptions {
  std::string checkpoint;         ///< the directory of a checkpoint, or of many (then the newest whole one)
  std::vector<std::string> data;  ///< token files, made by one tokenizer
  std::int64_t sequences = 0;     ///< the first so many sequences of the files; 0: all
  std::int64_t batch = 0;         ///< sequences that a rank computes at once; 0: data.batch of the run
  /// Bytes that a rank may take, as run.memory_limit, which stands where this is not given.
  std::optional<double> memory_limit;
  int tensor = 1;   ///< how many ranks share each layer
  int context = 1;  ///< how many ranks share each sequence
};

struct Evaluation {
  std::string checkpoint;  ///< the one that was taken
  std::int64_t step = 0;   ///< its step
  ValidationResult result;
};

/// Collective: the loss is that of a validation in training (data.valid), and has its bits on as many ranks.
/// The ranks share the sequences of the files between them, and hold the model in parts as the run's
/// parallel.mode says. Throws Error on a checkpoint or files that cannot be used, and, before memory is
/// taken, where there is too little (runtime::check_memory). `on_error` is as in generate().
Evaluation evaluate(const EvaluateOptions& options, comm::World& world,
                    const std::function<void(const std::exception&)>& on_error = {});

}  // namespace weft::train
