// Reads and writes hashes.jsonl: one JSON object for each hashed step, with a hash of every value that it
// made.
//   {"step": 5, "values": [["forward", "layers.0.attn", "layers.0.attn.h", "rms_norm", "1f2e..."], ...]}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/append_file.hpp"

namespace weft::compare {

/// The hash of a value, over all rounds and ranks together.
struct ValueHash {
  std::string phase;   ///< "forward", "backward", "update"
  std::string module;  ///< module path: "layers.0.attn"
  std::string value;   ///< the value's name in the graph, without the round: "layers.0.attn.h"; with the axes
                       ///< that cut it behind that: "layers.0.attn.h tensor=2"
  std::string op;      ///< the operation that made it; "state" for what the step started from
  std::string hash;    ///< 16 hex digits
  bool operator==(const ValueHash&) const = default;
};

struct StepHashes {
  std::int64_t step = 0;          ///< optimizer steps done, as in metrics.jsonl
  std::vector<ValueHash> values;  ///< in program order
};

/// The hashes of a step as one line of JSON with '\n'.
std::string to_json_line(const StepHashes& hashes);

/// Reads the lines of a file; a torn last line is left out. Throws Error(bad_input) "FILE:LINE: ..." when
/// another one is garbled.
std::vector<StepHashes> read_hashes(const std::string& path);

/// Appends lines to a hashes.jsonl, on rank 0 only.
class HashWriter {
 public:
  /// Prepares the file by prepare_step_lines(), and opens it.
  HashWriter(const std::string& path, std::optional<std::int64_t> resumed_at);
  void write(const StepHashes& hashes) { file_.append(to_json_line(hashes)); }

 private:
  io::AppendFile file_;
};

}  // namespace weft::compare
