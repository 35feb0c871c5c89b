#include "train/step_lines.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.hpp"
#include "train/free_name.hpp"

namespace weft::train {
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
    if (end == std::string_view::npos) break;  // torn: the writer ends every line
    const auto line = text.substr(0, end + 1);
    const auto line_step = step_of(parse(line));
    if (line_step && *line_step <= step) kept += line;
    text.remove_prefix(end + 1);
  }
  return kept;
}

/// Puts `text` in the place of `path`: the old file stays whole until the new one is on the disk.
void replace_file(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool good = fd >= 0;
  while (good && !text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    good = n > 0;
    if (good) text.remove_prefix(static_cast<std::size_t>(n));
  }
  good = good && ::fsync(fd) == 0;
  const int error = errno;  // close may change it
  if (fd >= 0) ::close(fd);
  WEFT_SYSTEM(good, "cannot write {} ({}); free space or choose another run.dir", temporary,
              std::strerror(error));
  WEFT_SYSTEM(std::rename(temporary.c_str(), path.c_str()) == 0,
              "cannot replace {} ({}); choose a writable run.dir", path, std::strerror(errno));
}

}  // namespace

const std::string& prepare_step_lines(const std::string& path, std::optional<std::int64_t> resumed_at) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    WEFT_SYSTEM(errno == ENOENT, "cannot open {} ({}); start again when the storage answers", path,
                std::strerror(errno));
    return path;
  }
  if (!resumed_at) {
    const std::string old = free_name(path + ".old");
    WEFT_SYSTEM(std::rename(path.c_str(), old.c_str()) == 0,
                "cannot set {} aside ({}); choose a writable run.dir", path, std::strerror(errno));
    return path;
  }
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  WEFT_SYSTEM(!in.bad(), "cannot read {} ({}); start again when the storage answers", path,
              std::strerror(errno));
  const std::string kept = lines_up_to(text, *resumed_at);
  if (kept.size() != text.size()) replace_file(path, kept);
  return path;
}

std::vector<json> read_step_lines(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  WEFT_VALIDATE(in.good(), "cannot open {} ({}) name a run directory", path, std::strerror(errno));
  std::vector<json> lines;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    lines.push_back(parse(line));
    WEFT_VALIDATE(step_of(lines.back()), "{}:{}: not a JSON object with a step (the file is damaged)", path,
                  lines.size());
  }
  return lines;
}

}  // namespace weft::train
