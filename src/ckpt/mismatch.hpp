// The error for a checkpoint that is whole but does not fit this run.
#pragma once

#include <string>

#include "base/check.hpp"

namespace weft::ckpt {

/// The checkpoint is as it was saved, but of another model or another precision, or without moments. That is
/// no damage, so nobody may set the checkpoint aside for it or go back to an older one.
class Mismatch : public Error {
 public:
  explicit Mismatch(const std::string& message) : Error(ExitCode::bad_checkpoint, message) {}
};

}  // namespace weft::ckpt
