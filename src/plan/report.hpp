// What `weft plan` prints: nodes, units, collectives with bytes, and the memory table with its largest
// holders and what forward keeps for backward.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace weft::plan {

struct CollectiveTotal {
  std::int64_t count = 0;
  std::int64_t payload_bytes = 0;  ///< the whole vectors
  std::int64_t wire_bytes =
      0;  ///< what one rank sends (and receives): payload * (W - 1) / W, all_reduce twice that
};
/// Totals of one step by "phase op dtype", and the axis where the mesh has several.
std::map<std::string, CollectiveTotal> collective_totals(const Plan& plan);

/// What the arena holds at a place, by falling size.
struct Holder {
  std::string name;  ///< of the value, or what it is scratch of
  std::int64_t bytes = 0;
};
std::vector<Holder> holders_at(const Plan& plan, std::int64_t place);
/// "backward matmul_wgrad in head".
std::string place_text(const Plan& plan, std::int64_t place);

/// Bytes of a rank's persistent storage.
std::int64_t persistent_bytes(const Plan& plan);

struct ReportOptions {
  int holders = 8;  ///< rows of the table of the arena's largest holders at its peak
};
std::string report(const Plan& plan, const ReportOptions& options = {});

/// What the executor walks: an instruction a line, with its lane and place in it, module, outputs and inputs
/// with the bytes [begin, end) that hold them (of the arena, or of a storage), and the instructions of other
/// lanes that it waits for. Text for reading and comparing; nothing parses it.
std::string print_instructions(const Plan& plan);

}  // namespace weft::plan
