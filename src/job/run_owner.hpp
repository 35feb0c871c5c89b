// The process that a run directory's lock names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft::job {

struct RunOwner {
  std::string host, kernel;  ///< kernel: the id of the boot, a name for the kernel that runs the process
  std::int64_t pid = 0;
  std::int64_t started = 0;  ///< clock ticks after that boot: a later process with this pid has another
  std::string job;           ///< of Slurm; empty outside
  std::string since;         ///< UTC
};

RunOwner this_process();
/// One line of JSON; empty when `text` is none.
std::string to_text(const RunOwner& owner);
std::optional<RunOwner> owner_from(const std::string& text);
/// "process 1234 on node7, Slurm job 99, since 2026-01-02T03:04:05Z"
std::string in_words(const RunOwner& owner);
bool is_of_this_kernel(const RunOwner& owner);
/// Of an owner of this kernel, whether its process is there.
bool is_running(const RunOwner& owner);

}  // namespace weft::job
