// A deck that trains in milliseconds, for tests of whole runs.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "deck/deck.hpp"

namespace weft::test {

/// The deck has twelve sequences a step in microbatches of one, which 1, 2, 3, 4, 6 and 12 ranks divide.
inline constexpr const char* small_deck_text = R"(
[run]
name = "small"
steps = 10
seed = 7
[model]
dim = 64
layers = 2
heads = 4
kv_heads = 2
ffn = 176
vocab = 300
[data]
synthetic = true
seq = 24
batch = 1
global_batch = 12
[optimizer]
lr = 1e-2
warmup = 2
clip = 1.0
decay = "constant"
[checkpoint]
every = 0
final = false
resume = "never"
[log]
tensorboard = false
progress = false
)";

/// The small deck with some keys changed, in a run directory of this process.
inline Deck small_deck(std::vector<std::string> sets = {}) {
  const auto dir = std::filesystem::temp_directory_path() /
                   ("weft-test-" + std::to_string(::getppid()) + "-" + std::to_string(::getpid()));
  sets.insert(sets.begin(), "run.dir=" + dir.string());
  return parse_deck_text(small_deck_text, "small.toml", sets);
}

}  // namespace weft::test
