#include "study/queue.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
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

/// Gives a file another name, where there is such a file.
void rename_if_there(const std::string& from, const std::string& to) {
  WEFT_SYSTEM(std::rename(from.c_str(), to.c_str()) == 0 || errno == ENOENT,
              "cannot rename {} ({}); see to its file system", from, std::strerror(errno));
}

/// The name of a file while sbatch is asked.
std::string aside(const std::string& path) {
  return path + ".old";
}

/// Submits a job, and returns its number. Throws Error(environment) where sbatch does not tell one.
std::string ask_sbatch(const std::vector<std::string>& words, const std::string& answer,
                       const std::string& errors) {
  const int code = run_child(words, answer, errors);
  const std::string line = first_line(answer);
  if (code == 127)
    throw Error(ExitCode::environment, "sbatch was not found (cells with how = \"slurm\" need Slurm)");
  std::string job = line.substr(0, line.find(';'));  // the name of a cluster may follow
  if (code != 0 || job.empty() || job.find_first_not_of("0123456789") != std::string::npos)
    throw Error(ExitCode::environment, fmt::format("sbatch ended with {}, and tells no job: {}", code,
                                                   code == 0 ? line : first_line(errors)));
  return job;
}

}  // namespace

std::string job_of(const Study& study, const Cell& cell) {
  return first_line(directory_of(study, cell) + "/job");
}

void forget_job(const Study& study, const Cell& cell) {
  std::filesystem::remove(directory_of(study, cell) + "/job");
}

bool is_queued(const Study& study, const Cell& cell) {
  const std::string dir = directory_of(study, cell);
  const std::string job = job_of(study, cell);
  if (job.empty()) return false;
  const std::string answer = dir + "/squeue.txt", errors = dir + "/squeue.err";
  if (run_child({"squeue", "--noheader", "--format=%T", "--jobs=" + job}, answer, errors) == 0)
    return !first_line(answer).empty();
  // Slurm forgets jobs that ended a while ago. Where it does not answer, the job may still be there.
  return io::read_if_there(errors).value_or("").find("Invalid job id") == std::string::npos;
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
    // By name: the file may have other cells when the job begins.
    std::string script = "case $SLURM_ARRAY_TASK_ID in ";
    for (const std::size_t member : members)
      script += fmt::format("{}) cell={} ;; ", member, shell_line({study.cells[member].name}));
    words.push_back("--wrap=" + script + "esac; exec " + shell_line({program, "study", file, "--cell"}) +
                    " \"$cell\"");
    const std::string answer = fmt::format("{}/sbatch-{}.txt", study.dir, ranks);
    const std::string errors = fmt::format("{}/sbatch-{}.err", study.dir, ranks);
    // What older jobs left goes aside before the new ones are there, because a short one may leave its result
    // at once. Without a result an older job would count as one that left nothing.
    std::vector<std::string> older;
    for (const std::size_t member : members)
      for (const char* name : {"/result.json", "/job"})
        older.push_back(directory_of(study, study.cells[member]) + name);
    std::string job;
    try {
      for (const std::string& path : older) rename_if_there(path, aside(path));
      job = ask_sbatch(words, answer, errors);
    } catch (...) {
      for (const std::string& path : older) rename_if_there(aside(path), path);
      throw;
    }
    for (const std::size_t member : members) {
      const std::string dir = directory_of(study, study.cells[member]);
      io::make_directories(dir);
      io::replace_file(dir + "/job", fmt::format("{}_{}\n", job, member));
    }
    // Only now: a removal that fails must not lose the number of a job that is queued.
    for (const std::string& path : older) std::filesystem::remove(aside(path));
    lines.push_back(fmt::format("job {}: {} cell{} of {} ranks", job, members.size(),
                                members.size() == 1 ? "" : "s", ranks));
  }
  return lines;
}

}  // namespace weft::study
