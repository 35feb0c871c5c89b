// What a checkpoint that is whole, and yet no state of this run, is answered with.
#pragma once

#include <string>

#include "base/check.hpp"

namespace weft::ckpt {

/// The checkpoint is as it was saved, but of another model, another precision, or without moments. That is no
/// damage, so that nobody may set the checkpoint aside for it or go back to an older one.
class Mismatch : public Error {
 public:
  explicit Mismatch(const std::string& message) : Error(ExitCode::bad_checkpoint, message) {}
};

}  // namespace weft::ckpt
