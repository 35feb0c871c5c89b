#include "compare/hash_file.hpp"

#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "io/step_lines.hpp"

namespace weft::compare {
namespace {

using nlohmann::json;

/// Reads a line; empty when it is none of ours.
std::optional<StepHashes> hashes_of(const json& line) {
  StepHashes hashes{line.at("step").get<std::int64_t>(), {}};
  const auto values = line.find("values");
  if (values == line.end() || !values->is_array()) return std::nullopt;
  for (const json& fields : *values) {
    if (!fields.is_array() || fields.size() != 5) return std::nullopt;
    for (const json& field : fields)
      if (!field.is_string()) return std::nullopt;
    hashes.values.push_back({fields[0], fields[1], fields[2], fields[3], fields[4]});
  }
  return hashes;
}

}  // namespace

std::string to_json_line(const StepHashes& hashes) {
  std::string line = fmt::format("{{\"step\": {}, \"values\": [", hashes.step);
  const char* separator = "";
  for (const ValueHash& v : hashes.values) {
    line += fmt::format("{}[\"{}\", \"{}\", \"{}\", \"{}\", \"{}\"]", separator, v.phase, v.module, v.value,
                        v.op, v.hash);
    separator = ", ";
  }
  return line + "]}\n";
}

std::vector<StepHashes> read_hashes(const std::string& path) {
  std::vector<StepHashes> steps;
  for (const json& line : io::read_step_lines(path)) {
    auto hashes = hashes_of(line);
    WEFT_VALIDATE(hashes, "{}:{}: not a line of hashes (the file is damaged)", path, steps.size() + 1);
    steps.push_back(std::move(*hashes));
  }
  return steps;
}

HashWriter::HashWriter(const std::string& path, std::optional<std::int64_t> resumed_at)
    : file_(io::prepare_step_lines(path, resumed_at)) {}

}  // namespace weft::compare
