#include "io/step_lines.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.hpp"
#include "io/free_name.hpp"
#include "io/small_file.hpp"

namespace weft::io {
namespace {

using nlohmann::json;

json parse(std::string_view line) {
  return json::parse(line, nullptr, /*allow_exceptions=*/false);
}

/// The step of a whole line; empty when the line is torn or not ours.
std::optional<std::int64_t> step_of(const json& object) {
  if (!object.is_object()) return std::nullopt;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

/// The lines of `text` that a run resumed at `step` keeps.
std::string lines_up_to(std::string_view text, std::int64_t step) {
  std::string kept;
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) break;  // the line is torn, because the writer ends every line
    const auto line = text.substr(0, end + 1);
    const auto line_step = step_of(parse(line));
    if (line_step && *line_step <= step) kept += line;
    text.remove_prefix(end + 1);
  }
  return kept;
}

}  // namespace

const std::string& prepare_step_lines(const std::string& path, std::optional<std::int64_t> resumed_at) {
  if (!resumed_at) {
    const std::string old = free_name(path + ".old");
    WEFT_SYSTEM(std::rename(path.c_str(), old.c_str()) == 0 || errno == ENOENT,
                "cannot rename {} ({}); choose a writable run.dir", path, std::strerror(errno));
    return path;
  }
  const auto text = read_if_there(path);
  if (!text) return path;
  const std::string kept = lines_up_to(*text, *resumed_at);
  if (kept.size() != text->size()) replace_file(path, kept);
  return path;
}

std::vector<json> read_step_lines(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in.good())
    throw Error(exit_code_of_named_file(errno),
                fmt::format("cannot open {} ({}); name a run directory", path, std::strerror(errno)));
  std::vector<json> lines;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    lines.push_back(parse(line));
    WEFT_VALIDATE(step_of(lines.back()), "{}:{}: not a JSON object with a step (the file is damaged)", path,
                  lines.size());
  }
  return lines;
}

}  // namespace weft::io
