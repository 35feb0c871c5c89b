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

/// Finds the step of a line and checks the rest of it, without a tree of its values: ranks.jsonl has a few of
/// each rank in a line.
class StepFinder final : public nlohmann::json_sax<json> {
 public:
  std::optional<std::int64_t> step() const { return step_; }

  bool null() override { return value(); }
  bool boolean(bool /*b*/) override { return value(); }
  bool number_integer(number_integer_t i) override { return is_step_ ? found(i) : value(); }
  bool number_unsigned(number_unsigned_t i) override {
    return is_step_ ? found(static_cast<std::int64_t>(i)) : value();
  }
  bool number_float(number_float_t /*x*/, const string_t& /*text*/) override { return value(); }
  bool string(string_t& /*text*/) override { return value(); }
  bool binary(binary_t& /*bytes*/) override { return value(); }
  bool start_object(std::size_t /*size*/) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override { return depth_ > 0 && open(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    is_step_ = depth_ == 1 && name == "step";
    return true;
  }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  bool value() {
    if (is_step_) step_.reset();  // of two the last counts, as in a tree
    is_step_ = false;
    return depth_ > 0;
  }
  bool found(std::int64_t step) {
    step_ = step;
    is_step_ = false;
    return true;
  }
  bool open() {
    if (depth_ > 0) value();
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  std::optional<std::int64_t> step_;
  bool is_step_ = false;
  int depth_ = 0;
};

/// The step of a whole line; empty when the line is torn or not ours.
std::optional<std::int64_t> step_of(std::string_view line) {
  StepFinder finder;
  return json::sax_parse(line, &finder) ? finder.step() : std::nullopt;
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

}  // namespace

const std::string& prepare_step_lines(const std::string& path, std::optional<std::int64_t> resumed_at) {
  if (!resumed_at) {
    const std::string old = free_name(path + ".old");
    WEFT_SYSTEM(std::rename(path.c_str(), old.c_str()) == 0 || errno == ENOENT,
                "cannot rename {} ({}); choose a writable run.dir", path, std::strerror(errno));
    return path;
  }
  std::int64_t kept_bytes = 0;
  std::vector<bool> kept;  // by line
  const bool there = for_each_line(path, Named::by_weft, [&](const std::string& line) {
    const auto step = step_of(line);
    kept.push_back(step && *step <= *resumed_at);
    if (kept.back()) kept_bytes += static_cast<std::int64_t>(line.size()) + 1;
  });
  if (!there || kept_bytes == file_bytes(path)) return path;
  AtomicFile file(path, Named::by_weft);
  std::size_t number = 0;
  for_each_line(path, Named::by_weft, [&](std::string& line) {
    const bool keep = number < kept.size() && kept[number];
    ++number;
    if (!keep) return;
    line += '\n';
    file.append(line.data(), line.size());
  });
  file.commit();
  return path;
}

std::vector<json> read_step_lines(const std::string& path) {
  std::vector<json> lines;
  const bool there = for_each_line(path, Named::by_user, [&](const std::string& line) {
    WEFT_VALIDATE(step_of(line), "{}:{}: not a JSON object with a step (the file is damaged)", path,
                  lines.size() + 1);
    lines.push_back(parse(line));
  });
  if (!there)
    throw Error(exit_code_of_named_file(ENOENT),
                fmt::format("cannot open {} ({}); name a run directory", path, std::strerror(ENOENT)));
  return lines;
}

}  // namespace weft::io
