#include "restart/job.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <thread>

namespace weft::test {
namespace {

namespace fs = std::filesystem;

struct Process {
  pid_t parent = 0;
  std::string name;
};

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();  // a process that ends meanwhile gives an empty file, not an exception
  return text.str();
}

/// All living processes. /proc/PID/stat reads "PID (NAME) STATE PARENT ...".
std::map<pid_t, Process> processes() {
  std::map<pid_t, Process> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    const std::string stat = read(entry.path().string() + "/stat");
    const auto open = stat.find('('), close = stat.rfind(')');
    if (close == std::string::npos || stat[close + 2] == 'Z') continue;
    std::istringstream rest(stat.substr(close + 4));
    Process process;
    rest >> process.parent;
    process.name = stat.substr(open + 1, close - open - 1);
    all.emplace(pid, process);
  }
  return all;
}

/// The children of this process, their children, and so on. This process adopts orphans, so none is missed.
std::map<pid_t, Process> descendants() {
  const auto all = processes();
  std::map<pid_t, Process> mine;
  for (const auto& [pid, process] : all) {
    pid_t ancestor = process.parent;
    while (ancestor != ::getpid() && all.contains(ancestor)) ancestor = all.at(ancestor).parent;
    if (ancestor == ::getpid()) mine.emplace(pid, process);
  }
  return mine;
}

int exit_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void pause_briefly() {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

[[noreturn]] void become(const std::vector<std::string>& command, const std::string& files) {
  const int out = ::open((files + ".out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  const int err = ::open((files + ".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  const int in = ::open("/dev/null", O_RDONLY);
  ::dup2(in, 0), ::dup2(out, 1), ::dup2(err, 2);
  std::vector<char*> argv;
  for (const auto& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<std::string> Ended::lines(const std::string& prefix) const {
  std::vector<std::string> found;
  std::istringstream in(err);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(prefix)) found.push_back(line);
  return found;
}

Job::Job(const std::vector<std::string>& command) : start_(seconds_now()) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  files_ = (fs::temp_directory_path() / ("weft_job_" + std::to_string(::getpid()))).string();
  launcher_ = ::fork();
  if (launcher_ == 0) become(command, files_);
}

Job::~Job() {
  kill();
  fs::remove(files_ + ".out"), fs::remove(files_ + ".err");
}

/// Collects dead processes, and keeps the launcher's status.
void Job::reap() {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;)
    if (pid == launcher_) status_ = exit_status(status);
}

std::vector<pid_t> Job::ranks() const {
  std::vector<pid_t> pids;
  for (const auto& [pid, process] : descendants())
    if (process.name == "weft") pids.push_back(pid);
  return pids;
}

void Job::signal(int number) const {
  ::kill(launcher_, number);
}

void Job::kill() {
  for (auto left = descendants(); !left.empty(); left = descendants()) {
    for (const auto& [pid, process] : left) ::kill(pid, SIGKILL);
    pause_briefly();
  }
  reap();
}

Ended Job::wait(double deadline_s) {
  Ended ended;
  while (reap(), status_ < 0 || !descendants().empty()) {
    if (seconds_now() - start_ > deadline_s) {
      ended.in_time = false;
      kill();
      break;
    }
    pause_briefly();
  }
  ended.status = status_;
  ended.seconds = seconds_now() - start_;
  ended.out = read(files_ + ".out");
  ended.err = read(files_ + ".err");
  return ended;
}

Ended run(const std::vector<std::string>& command, double deadline_s) {
  return Job(command).wait(deadline_s);
}

std::vector<std::string> weft(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), WEFT_PROGRAM);
  return arguments;
}

std::vector<std::string> weft_on(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> command{WEFT_MPIRUN, "-n", std::to_string(ranks)};
  std::ranges::copy(weft(arguments), std::back_inserter(command));
  return command;
}

std::vector<std::string> weft_each(const std::vector<std::vector<std::string>>& arguments_by_rank) {
  std::vector<std::string> command{WEFT_MPIRUN};
  for (const auto& arguments : arguments_by_rank) {
    if (command.size() > 1) command.emplace_back(":");
    command.insert(command.end(), {"-n", "1"});
    std::ranges::copy(weft(arguments), std::back_inserter(command));
  }
  return command;
}

}  // namespace weft::test
