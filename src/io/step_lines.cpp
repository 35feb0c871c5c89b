#include "io/step_lines.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.hpp"
#include "io/atomic_file.hpp"
#include "io/file.hpp"
#include "io/free_name.hpp"

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

/// Calls `take` with each line of the file that ends with a newline; what a killed run left torn does not. It
/// holds one line at a time: ranks.jsonl of many ranks grows to gigabytes. Returns false when there is no
/// file.
template <class Take>
bool for_each_line(const std::string& path, Named named, Take&& take) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in.is_open() && errno == ENOENT) return false;
  for (std::string line; std::getline(in, line) && !in.eof();) take(line);
  if (!in.is_open() || in.bad())
    throw Error(named == Named::by_user ? exit_code_of_named_file(errno) : ExitCode::environment,
                fmt::format("cannot read {} ({}); see to its file system", path, std::strerror(errno)));
  return true;
}

/// Whether a run that is resumed at `step` keeps this line.
bool is_kept(std::string_view line, std::int64_t step) {
  const auto line_step = step_of(parse(line));
  return line_step && *line_step <= step;
}

}  // namespace

const std::string& prepare_step_lines(const std::string& path, std::optional<std::int64_t> resumed_at) {
  if (!resumed_at) {
    const std::string old = free_name(path + ".old");
    WEFT_SYSTEM(std::rename(path.c_str(), old.c_str()) == 0 || errno == ENOENT,
                "cannot rename {} ({}); choose a writable run.dir", path, std::strerror(errno));
    return path;
  }
  std::int64_t kept = 0;
  const bool there = for_each_line(path, Named::by_weft, [&](const std::string& line) {
    if (is_kept(line, *resumed_at)) kept += static_cast<std::int64_t>(line.size()) + 1;
  });
  if (!there || kept == file_bytes(path)) return path;
  AtomicFile file(path, Named::by_weft);
  for_each_line(path, Named::by_weft, [&](std::string& line) {
    if (!is_kept(line, *resumed_at)) return;
    line += '\n';
    file.append(line.data(), line.size());
  });
  file.commit();
  return path;
}

std::vector<json> read_step_lines(const std::string& path) {
  std::vector<json> lines;
  const bool there = for_each_line(path, Named::by_user, [&](const std::string& line) {
    lines.push_back(parse(line));
    WEFT_VALIDATE(step_of(lines.back()), "{}:{}: not a JSON object with a step (the file is damaged)", path,
                  lines.size());
  });
  if (!there)
    throw Error(exit_code_of_named_file(ENOENT),
                fmt::format("cannot open {} ({}); name a run directory", path, std::strerror(ENOENT)));
  return lines;
}

}  // namespace weft::io
