// Computes the validation loss over a file, on all ranks.
#pragma once

#include <cstdint>

#include "data/validation_source.hpp"
#include "runtime/session.hpp"

namespace weft::train {

struct ValidationResult {
  double loss = 0;  ///< nats a token
  double bits_per_byte = 0;
  std::int64_t tokens = 0;
  double seconds = 0;
};

class Validation {
 public:
  /// `executor` runs an evaluation plan, whose microbatches on each rank are [batch, seq].
  Validation(runtime::Session& session, exec::Executor& executor, data::ValidationSource source,
             std::int64_t batch, std::int64_t seq);
  /// Collective: computes the loss. All ranks walk the file together; microbatch m = round * ranks + rank.
  ValidationResult run();

 private:
  runtime::Session& session_;
  exec::Executor& executor_;
  data::ValidationSource source_;
  std::int64_t batch_, seq_;
  const int rounds_;  ///< microbatches of a rank in one run of the plan
};

}  // namespace weft::train
