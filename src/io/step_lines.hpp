// Files of JSON lines, each with a "step", that a run writes and a resumed run goes on with: metrics.jsonl
// and hashes.jsonl.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace weft::io {

/// Makes `path` ready to be appended to, and returns it. `resumed_at` is the step of the checkpoint that the
/// run continues from: lines of later steps, and a line that a killed run left torn, are dropped, so that no
/// step stands there twice (a new file is written and renamed over the old). Without `resumed_at` the run
/// begins from the start, and an existing file is kept as `path`.old, or .old-2 and so on where that is
/// taken. Throws Error(environment) when files cannot be read or written.
const std::string& prepare_step_lines(const std::string& path, std::optional<std::int64_t> resumed_at);

/// The objects of a file, in its order; a torn last line (its run was killed, or still writes) is left out.
/// Throws Error(bad_input) "FILE:LINE: ..." when another line is not an object with a step, and
/// Error(bad_input or environment) when the file cannot be read to its end.
std::vector<nlohmann::json> read_step_lines(const std::string& path);

}  // namespace weft::io
