// Checks that all ranks see the run directory that rank 0 writes to, and makes that directory.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "comm/world.hpp"
#include "deck/deck.hpp"
#include "job/run_directory.hpp"

namespace weft::train {

/// Collective: checks that all ranks see rank 0's run directory. `mark`, on rank 0, is what the file
/// RUN_DIR/lock holds there; when it is empty nothing is checked, and the result is false. Throws on all
/// ranks when one of them does not find that file within the time that a network file system may take, a
/// minute and a half: Error(bad_input) where there is another file or none, because this rank's checkpoints
/// would then come from, and go, elsewhere; Error(environment) where it cannot be read.
bool check_shared_directory(comm::World& world, const Deck& deck, const std::string& mark);

/// The run directory. All calls but note() are collective, and throw on all ranks alike.
class SharedDirectory {
 public:
  /// Rank 0 locks the directory if it exists (job::RunDirectory). That comes before this run takes cores and
  /// memory from another run that has the directory. `on_seen` is called when all ranks are found to see the
  /// same directory. `deck` and `world` outlive this.
  SharedDirectory(const Deck& deck, comm::World& world, std::function<void()> on_seen);

  /// Checks by check_shared_directory() that all ranks see rank 0's directory, if there is one yet.
  void check();
  /// Makes the directory this run's: rank 0 makes it where there is none, writes `deck` to deck.toml, and
  /// calls `on_rank_0`; check() follows.
  void make(const std::string& deck, const std::function<void()>& on_rank_0);
  /// Something about the lock that the user should see; empty on other ranks than 0.
  std::string note() const { return rank_0s_ ? rank_0s_->note() : std::string(); }

 private:
  const Deck& deck_;
  comm::World& world_;
  std::function<void()> on_seen_;
  std::optional<job::RunDirectory> rank_0s_;
};

}  // namespace weft::train
