// The functions that fuzz targets share: how input may be refused, and how a broken promise ends the process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.hpp"

// libFuzzer calls these, or has them: the target, its own mutations, and a target's mutations.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed);

namespace weft::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Ends the process, as a sanitizer does, unless the promise holds.
inline void require(bool holds, const char* promise, const std::string& detail = {}) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: not so: %s\n%s\n", promise, detail.c_str());
  std::abort();
}

/// Whether `call` refuses. It may refuse only by an Error, whose message has at most `most_lines` lines, none
/// of them empty or with control characters.
template <class Call>
bool refused(Call&& call, std::ptrdiff_t most_lines = 1) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    const bool printable = std::all_of(message.begin(), message.end(), [](char c) {
      return c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    });
    require(printable, "an error's message is printable", message);
    require(std::count(message.begin(), message.end(), '\n') < most_lines, "an error is so many lines",
            message);
    require(("\n" + message + "\n").find("\n\n") == std::string::npos, "an error's lines say something",
            message);
    return true;
  }
  return false;
}

}  // namespace weft::fuzz
