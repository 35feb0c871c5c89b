#include "study/queue.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <map>

#include "base/check.hpp"
#include "io/small_file.hpp"
#include "study/cell.hpp"
#include "study/child.hpp"

namespace weft::study {
namespace {

std::string first_line(const std::string& path) {
  const std::string text = io::read_if_there(path).value_or("");
  return text.substr(0, text.find('\n'));
}

/// A word inside single quotes of a shell.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

bool is_queued(const Study& study, const Cell& cell) {
  const std::string dir = directory_of(study, cell);
  const std::string job = first_line(dir + "/job");
  if (job.empty()) return false;
  const std::string answer = dir + "/squeue.txt";
  return run_child({"squeue", "--noheader", "--format=%T", "--jobs=" + job}, answer) == 0 &&
         !first_line(answer).empty();
}

std::vector<std::string> submit(const Study& study, const std::vector<std::size_t>& cells,
                                const std::string& program, const std::string& file) {
  std::map<int, std::vector<std::size_t>> by_ranks;
  for (const std::size_t cell : cells) by_ranks[study.cells[cell].ranks].push_back(cell);
  std::vector<std::string> lines;
  for (const auto& [ranks, members] : by_ranks) {
    std::vector<std::string> words{"sbatch",
                                   "--parsable",
                                   fmt::format("--ntasks={}", ranks),
                                   fmt::format("--array={}", fmt::join(members, ",")),
                                   fmt::format("--job-name={}", study.name),
                                   fmt::format("--output={}/job-%A_%a.log", study.dir)};
    words.insert(words.end(), study.sbatch.begin(), study.sbatch.end());
    words.push_back("--wrap=" + fmt::format("exec {} study {} --cell \"$SLURM_ARRAY_TASK_ID\"",
                                            shell_quoted(program), shell_quoted(file)));
    const std::string answer = fmt::format("{}/sbatch-{}.txt", study.dir, ranks);
    const int code = run_child(words, answer);
    const std::string line = first_line(answer);
    if (code == 127)
      throw Error(ExitCode::environment, "sbatch was not found (cells with how = \"slurm\" need Slurm)");
    if (code != 0) throw Error(ExitCode::environment, fmt::format("sbatch ended with {}: {}", code, line));
    const std::string job = line.substr(0, line.find(';'));  // the name of a cluster may follow
    for (const std::size_t member : members) {
      io::make_directories(directory_of(study, study.cells[member]));
      io::replace_file(directory_of(study, study.cells[member]) + "/job",
                       fmt::format("{}_{}\n", job, member));
    }
    lines.push_back(fmt::format("job {}: {} cell{} of {} ranks", job, members.size(),
                                members.size() == 1 ? "" : "s", ranks));
  }
  return lines;
}

}  // namespace weft::study
