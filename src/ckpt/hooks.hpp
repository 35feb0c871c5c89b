// How the ranks of a save or a load meet, so that this folder needs no MPI.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace weft::ckpt {

/// All are collective, and called in the same order by every rank, on the thread that calls save(),
/// Save::advance(), read_manifest() or load().
struct Hooks {
  int rank = 0;
  int size = 1;
  std::function<void()> barrier;
  std::function<std::string(std::string)> broadcast;  ///< rank 0's string, on every rank
  std::function<std::vector<std::string>(const std::string&)>
      gather;                          ///< everybody's string, in rank order, on rank 0
  std::function<bool(bool)> all_true;  ///< on every rank
};

/// Hooks of a run of one rank.
Hooks single_rank();

namespace detail {

/// Collective: what `make` returns on rank 0, on every rank. Where it throws, every rank throws the same.
std::string from_root(const Hooks& hooks, const std::function<std::string()>& make);

/// Collective: when any rank has a problem, all throw: those that have one throw it, the others an
/// Error(bad_checkpoint) without text, as train::agree does.
void leave_together(const Hooks& hooks, const std::exception_ptr& problem);

}  // namespace detail
}  // namespace weft::ckpt
