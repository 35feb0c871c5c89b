// Makes the report of `weft plan`: nodes, units, collectives with bytes, and the memory table with its
// largest holders and what forward keeps for backward.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace weft::plan {

struct CollectiveTotal {
  std::int64_t count = 0;
  std::int64_t payload_bytes = 0;  ///< bytes of the whole vectors
  /// Bytes that one rank sends (and receives): payload * (W - 1) / W, and twice that for an all_reduce.
  std::int64_t wire_bytes = 0;
};
/// Totals of one step by "phase op dtype", and the axis where the mesh has several.
std::map<std::string, CollectiveTotal> collective_totals(const Plan& plan);

/// A holder of the arena at some place; lists of them are sorted by falling size.
struct Holder {
  std::string name;  ///< name of the value, or of the node whose scratch it is
  std::int64_t bytes = 0;
};
std::vector<Holder> holders_at(const Plan& plan, std::int64_t place);
/// A place in words: "backward matmul_wgrad in head".
std::string place_text(const Plan& plan, std::int64_t place);

/// Bytes of a rank's persistent storage.
std::int64_t persistent_bytes(const Plan& plan);

struct ReportOptions {
  int holders = 8;  ///< how many rows the table of the arena's largest holders has
};
std::string report(const Plan& plan, const ReportOptions& options = {});

/// The instructions that the executor walks, a line each: the lane and the place in it, module, outputs and
/// inputs with the bytes [begin, end) that hold them (of the arena, or of a storage), and the instructions of
/// other lanes that it waits for. The text is for reading and comparing; nothing parses it.
std::string print_instructions(const Plan& plan);

}  // namespace weft::plan
