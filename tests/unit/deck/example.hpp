// The smallest deck that parses, and functions by which tests change a line of it, or read what goes wrong.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "deck/deck.hpp"

namespace weft::test {

inline constexpr std::string_view example =
    "[run]\n"             // 1
    "steps = 10\n"        // 2
    "[model]\n"           // 3
    "dim = 64\n"          // 4
    "layers = 2\n"        // 5
    "heads = 4\n"         // 6
    "ffn = 96\n"          // 7
    "vocab = 256\n"       // 8
    "[data]\n"            // 9
    "synthetic = true\n"  // 10
    "seq = 32\n"          // 11
    "global_batch = 8\n"  // 12
    "[optimizer]\n"       // 13
    "lr = 1e-3\n";        // 14

/// The example with line `number` replaced; number 15 appends a line.
inline std::string with_line(int number, std::string_view line) {
  std::string text;
  std::string_view rest = example;
  for (int i = 1; !rest.empty(); ++i) {
    const auto end = rest.find('\n') + 1;
    text += i == number ? std::string(line) + "\n" : std::string(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  return number == 15 ? text + std::string(line) + "\n" : text;
}

/// The error's text, or "no error".
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == ExitCode::bad_input ? error.what() : "another exit code";
  }
  return "no error";
}

inline std::string mistake(const std::string& text, const std::vector<std::string>& sets = {}) {
  return error_of([&] { parse_deck_text(text, "d.toml", sets); });
}

inline Deck parse_example(const std::vector<std::string>& sets = {}) {
  return parse_deck_text(example, "d.toml", sets);
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline const std::vector<std::string> input_decks{"quickstart", "bench_33m", "llama3_8b", "llama3_70b",
                                                  "llama3_405b"};
inline std::string input_path(const std::string& name) {
  return std::string(WEFT_SOURCE_DIR "/inputs/") + name + ".toml";
}

}  // namespace weft::test
