#include "study/child.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "io/descriptor.hpp"

namespace weft::study {
namespace {

/// A descriptor of the file, which is empty. It is none of the standard ones, which open() gives where this
/// program began without them: the child's would be put over it. Throws Error(environment) where the file
/// cannot be written.
int opened(const std::string& path) {
  const io::Descriptor any(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  WEFT_SYSTEM(any.get() >= 0, "cannot write {} ({})", path, std::strerror(errno));
  const int fd = ::fcntl(any.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  WEFT_SYSTEM(fd >= 0, "cannot write {} ({})", path, std::strerror(errno));
  return fd;
}

}  // namespace

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-+./=:,@%") == std::string::npos;
    std::string quoted = word;
    for (std::size_t at = 0; !plain && (at = quoted.find('\'', at)) != std::string::npos; at += 4)
      quoted.replace(at, 1, "'\\''");
    line += (line.empty() ? "" : " ") + (plain ? word : "'" + quoted + "'");
  }
  return line;
}

int run_child(const std::vector<std::string>& words, const std::string& log, const std::string& errors) {
  // The child does not open its log itself, because that failure would look like a program that is not there.
  const io::Descriptor out(opened(log)), separate(errors.empty() ? -1 : opened(errors));
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.empty() ? out.get() : separate.get(), STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT || error == EACCES) return 127;
  WEFT_SYSTEM(error == 0, "cannot start {} ({})", words.front(), std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    WEFT_SYSTEM(errno == EINTR, "cannot wait for {} ({})", words.front(), std::strerror(errno));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace weft::study
