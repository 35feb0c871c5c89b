// Turns a failure into a line.
#pragma once

#include <exception>
#include <string>

namespace weft::ckpt::detail {

/// Runs a part of a save, and returns why it failed, so that ranks can agree on it, or the rest can be done
/// all the same. Empty: it did not fail.
template <class Part>
std::string attempt(Part&& part) {
  try {
    part();
    return {};
  } catch (const std::exception& e) {
    return e.what()[0] != '\0' ? e.what() : "unknown error";
  }
}

}  // namespace weft::ckpt::detail
