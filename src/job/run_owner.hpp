// Describes the process that a run directory's lock names, and tells whether it is running.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft::job {

struct RunOwner {
  std::string host;
  /// The boot's id and that of the namespace of process numbers. Where it is equal, `pid` is the same
  /// process.
  std::string kernel;
  std::int64_t pid = 0;
  /// Clock ticks after that boot; a later process with this pid has another number.
  std::int64_t started = 0;
  std::string job;    ///< number of the Slurm job; empty outside of Slurm
  std::string since;  ///< when the lock was taken, in UTC
};

RunOwner this_process();
/// The owner as one line of JSON.
std::string to_text(const RunOwner& owner);
std::optional<RunOwner> owner_from(const std::string& text);
/// The owner in words: "process 1234 on node7, Slurm job 99, since 2026-01-02T03:04:05Z".
std::string in_words(const RunOwner& owner);
/// Whether the owner runs under this kernel, and this process sees its number.
bool is_of_this_kernel(const RunOwner& owner);
/// Whether the process of an owner under this kernel is there and has not ended.
bool is_running(const RunOwner& owner);

}  // namespace weft::job
