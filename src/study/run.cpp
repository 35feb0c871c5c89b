// Runs a cell (declared in cell.hpp).
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "advise/arrangement.hpp"
#include "base/check.hpp"
#include "base/median.hpp"
#include "base/version.hpp"
#include "deck/deck.hpp"
#include "io/descriptor.hpp"
#include "io/small_file.hpp"
#include "study/cell.hpp"
#include "study/child.hpp"

namespace weft::study {
namespace {

using nlohmann::json;

/// The first steps of a run pay for caches and libraries.
constexpr std::size_t first_steps = 2;

/// The words of the launcher's line, with the number of ranks in its place.
std::vector<std::string> launch_words(const Study& study, int ranks) {
  std::vector<std::string> words;
  std::istringstream line(study.launch);
  for (std::string word; line >> word;) {
    const std::string place = "{ranks}", number = std::to_string(ranks);
    for (std::size_t at = 0; (at = word.find(place, at)) != std::string::npos; at += number.size())
      word.replace(at, place.size(), number);
    words.push_back(word);
  }
  return words;
}

/// The last line of a log that says what went wrong.
std::string last_error(const std::string& log) {
  std::istringstream lines(io::read_if_there(log).value_or(""));
  std::string last, error, own;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) last = line;
    if (line.find("error") != std::string::npos) error = line;
    if (line.find("weft: error: ") != std::string::npos) own = line;
  }
  if (!own.empty()) return own;  // a launcher adds a line of its own
  return error.empty() ? last : error;
}

/// What has a name before a run begins: a file, or nothing. The file stays open for as long as this object
/// lives, so that no newer one gets its inode's number.
class EarlierFile {
 public:
  explicit EarlierFile(std::string path) : path_(std::move(path)), file_(open()) {}

  /// The text of the file that now has the name, where that is another one. `weft train` never writes on in
  /// an earlier run's file: it replaces deck.toml by a rename, and sets metrics.jsonl aside.
  std::optional<std::string> newer() const {
    const io::Descriptor now(open());
    struct stat before {};
    struct stat after {};
    const bool same = ::fstat(file_.get(), &before) == 0 && ::fstat(now.get(), &after) == 0 &&
                      before.st_dev == after.st_dev && before.st_ino == after.st_ino;
    return same ? std::nullopt : io::read_if_there(path_);
  }
  const std::string& path() const { return path_; }

 private:
  int open() const { return ::open(path_.c_str(), O_RDONLY | O_CLOEXEC); }

  std::string path_;
  io::Descriptor file_;
};

/// The median over the steps of a key; not a number where a step has none.
double median_of(const std::vector<json>& steps, std::string_view key) {
  std::vector<double> values;
  for (const json& step : steps)
    if (const auto found = step.find(key); found != step.end() && found->is_number())
      values.push_back(*found);
  return values.empty() ? std::nan("") : median(std::move(values));
}

std::vector<json> steps_of(const std::string& metrics) {
  std::vector<json> steps;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    json step = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (step.is_object() && step.value("kind", "") == "train") steps.push_back(std::move(step));
  }
  if (steps.size() > 2 * first_steps) steps.erase(steps.begin(), steps.begin() + first_steps);
  return steps;
}

void add_figures(Result& result, const std::vector<json>& steps, int ranks) {
  result.step_s = median_of(steps, "step_s");
  result.tokens_per_s = median_of(steps, "tokens_per_s") / ranks;
  result.mfu = median_of(steps, "mfu");
  result.exposed_s = median_of(steps, "exposed_comm_s");
  result.idle_s = median_of(steps, "exposed_pipe_s");
  if (std::isfinite(result.idle_s) && std::isfinite(result.exposed_s))
    result.exposed_s = std::max(0.0, result.exposed_s - result.idle_s);
  result.memory_bytes = median_of(steps, "rss_bytes");
}

/// Runs the cell by the words of its command, and adds to the result what the run says of itself.
void add_run(Result& result, const Study& study, const Cell& cell, const std::vector<std::string>& words) {
  const std::string dir = directory_of(study, cell), log = dir + "/log.txt";
  io::make_directories(dir);
  io::replace_file(dir + "/command.txt", result.command + "\n");
  // What an earlier run left, perhaps with another deck, must not be taken for this run's. It stays where it
  // is, because that run may still be going.
  const EarlierFile deck(dir + "/run/deck.toml"), metrics(dir + "/run/metrics.jsonl");
  const int code = run_child(words, log);
  if (const auto text = deck.newer())
    result.mesh = advise::mesh_text(advise::arrangement_of(parse_saved_deck(*text, deck.path()), cell.ranks));
  const std::vector<json> steps = steps_of(metrics.newer().value_or(""));
  if (code == 0 && !steps.empty()) return add_figures(result, steps, cell.ranks);
  const bool refused = code == static_cast<int>(ExitCode::bad_input);
  result.status = refused ? Status::refused : Status::failed;
  if (code == 127) {
    result.message = fmt::format("{} was not found", words.front());
  } else if (code == 0) {
    result.message = fmt::format("{} ended with 0, but {} has no step of this run; see {}", words.front(),
                                 metrics.path(), log);
  } else {
    result.message = fmt::format("exit code {}: {}", code, last_error(log));
  }
}

}  // namespace

Result run(const Study& study, const Cell& cell, const std::string& program) {
  std::vector<std::string> words = launch_words(study, cell.ranks);
  words.insert(words.end(), {program, "train", cell.deck});
  std::vector<std::string> sets = cell.sets;
  sets.insert(sets.end(), {"run.dir=" + directory_of(study, cell) + "/run", "checkpoint.resume=never",
                           "log.progress=false"});
  for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
  Result result;
  result.key = key_of(study, cell);
  result.version = fmt::format("{} ({})", weft_version(), weft_git_hash());
  result.command = shell_line(words);
  try {
    add_run(result, study, cell, words);
  } catch (const std::exception& e) {  // whatever goes wrong costs one cell
    result.status = Status::failed;
    result.message = message_of(e);
  }
  return result;
}

}  // namespace weft::study
