// hashes.jsonl: one JSON object a hashed step, with a hash of every value that the step made.
//   {"step": 5, "values": [["forward", "layers.0.attn", "layers.0.attn.h", "rms_norm", "1f2e..."], ...]}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/append_file.hpp"

namespace weft::compare {

/// A value of all rounds and ranks together.
struct ValueHash {
  std::string phase;   ///< "forward", "backward", "update"
  std::string module;  ///< path: "layers.0.attn"
  std::string value;   ///< the graph's name without the round: "layers.0.attn.h"
  std::string op;      ///< what made it; "state" for what the step started from
  std::string hash;    ///< 16 hex digits
  bool operator==(const ValueHash&) const = default;
};

struct StepHashes {
  std::int64_t step = 0;          ///< as in metrics.jsonl
  std::vector<ValueHash> values;  ///< in program order
};

/// The object as one line with '\n'.
std::string to_json_line(const StepHashes& hashes);

/// The lines of a file. Throws Error(bad_input) "FILE:LINE: ..." when one is garbled; a torn last line is
/// left out.
std::vector<StepHashes> read_hashes(const std::string& path);

/// Appends to a hashes.jsonl. Rank 0 only.
class HashWriter {
 public:
  /// As prepare_step_lines().
  HashWriter(const std::string& path, std::optional<std::int64_t> resumed_at);
  void write(const StepHashes& hashes) { file_.append(to_json_line(hashes)); }

 private:
  io::AppendFile file_;
};

}  // namespace weft::compare
