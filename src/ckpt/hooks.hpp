// The functions by which the ranks of a save or a load meet, so that this folder needs no MPI.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace weft::ckpt {

/// The functions are collective. Every rank calls them in the same order, on the thread that calls save(),
/// Save::advance(), read_manifest() or load().
struct Hooks {
  int rank = 0;
  int size = 1;
  std::function<void()> barrier;
  std::function<std::string(std::string)> broadcast;  ///< gives every rank the string of rank 0
  /// Gives rank 0 every rank's string, in rank order.
  std::function<std::vector<std::string>(const std::string&)> gather;
  /// Whether the argument is true on every rank; all get the same answer.
  std::function<bool(bool)> all_true;
};

/// The hooks of a run of one rank.
Hooks single_rank();

namespace detail {

/// Collective: gives every rank what `make` returns on rank 0. Where `make` throws, every rank throws the
/// same.
std::string from_root(const Hooks& hooks, const std::function<std::string()>& make);

/// Collective: when any rank has a problem, all throw. Those that have one throw it; the others throw an
/// Error(bad_checkpoint) without text, as comm::agree does.
void leave_together(const Hooks& hooks, const std::exception_ptr& problem);

}  // namespace detail
}  // namespace weft::ckpt
