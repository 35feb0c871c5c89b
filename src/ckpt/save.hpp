// Saves a checkpoint. A checkpoint that can be seen is complete and durable: everything is written and
// fsynced under step-N.tmp/, which takes its name last. A save that fails leaves the earlier checkpoints as
// they were, and the run goes on. What touches the disk runs on a thread of the save's own; ranks meet on the
// caller's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/unit.hpp"
#include "ckpt/hooks.hpp"
#include "ckpt/state.hpp"

namespace weft::ckpt {

/// Whether each rank reads its file back from storage and checks it before the checkpoint counts, and before
/// an older one is removed.
enum class ReadBack { no, yes };

struct SaveOptions {
  std::int64_t keep = 2;        ///< how many of the newest checkpoints stay; 0 keeps all
  std::int64_t keep_every = 0;  ///< checkpoints whose step is a multiple of this stay, too; 0: none
  std::int64_t slab_bytes = std::int64_t{64} << 20;  ///< bytes that one checksum covers; at most 64 MiB
  std::int64_t alignment = std::int64_t{4} << 20;  ///< where in the file datasets of at least this size begin
  bool direct_io = true;                           ///< leaves out the page cache, where that is possible
  ReadBack read_back = ReadBack::yes;
  /// Called on the save's thread before it reads the slices' memory for the first time. It returns once that
  /// memory holds what is to be saved. When it is empty, the memory holds it from the beginning.
  std::function<void()> await_slices;
  /// Called as a stage ends, on the ranks that take part, on the save's thread. The stages are prepared,
  /// shard_written, index_written, manifest_written, renamed, latest_moved and old_removed. Tests fail or
  /// kill the process there.
  std::function<void(const char* stage)> on_stage;
};

struct SaveReport {
  bool ok = false;  ///< the same on every rank: the checkpoint is complete, durable, and has its name
  /// One line: why the save failed, and what could not be tidied up. Rank 0 has the reason of the rank that
  /// failed.
  std::string reason;
  std::string path;          ///< CHECKPOINTS_DIR/step-N
  std::int64_t bytes = 0;    ///< bytes of state: of all ranks on rank 0, of the rank itself elsewhere
  double seconds = 0;        ///< seconds from the save's beginning to its end
  double write_seconds = 0;  ///< seconds that this rank took to write its file: checksums, writes, fsync
  double read_back_seconds = 0;
};

enum class WaitForEnd : std::uint8_t { no, yes };

/// A save under way, which makes CHECKPOINTS_DIR/step-N. It never throws for a failing disk: SaveReport
/// tells.
class Save {
 public:
  /// Collective over the hooks. The save begins at once. The slices of all ranks must cover every unit once
  /// for each role (a role that nobody holds is left out). Their memory is read once options.await_slices has
  /// returned, and must stay as it is to the end.
  Save(const std::string& checkpoints_dir, const RunState& run, const std::vector<Unit>& units,
       std::vector<StateSlice> slices, Hooks hooks, const SaveOptions& options = {});
  /// Waits for what the save's thread is doing. A save that is not at its end leaves a *.tmp behind.
  ~Save();
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;

  /// Collective, with the same `wait` on all ranks. Returns whether the save is at its end. With
  /// WaitForEnd::no it looks whether all ranks are done with the part under way, and lets them begin the next
  /// one; with WaitForEnd::yes it waits for the end.
  bool advance(WaitForEnd wait);
  /// The result; call it once the save is at its end.
  const SaveReport& report() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs a save from beginning to end. Collective over the hooks.
SaveReport save(const std::string& checkpoints_dir, const RunState& run, const std::vector<Unit>& units,
                std::span<const StateSlice> slices, const Hooks& hooks, const SaveOptions& options = {});

}  // namespace weft::ckpt
