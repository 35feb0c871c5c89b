// Saving. A visible checkpoint is complete and durable: everything is written and fsynced under step-N.tmp/,
// and takes its name last. A save that fails leaves the earlier checkpoints as they were, and the run goes
// on. What touches the disk runs on a thread of the save's own; ranks meet on the caller's.
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

/// Whether each rank reads its file back from storage, and checks it, before the checkpoint counts (and an
/// older one goes).
enum class ReadBack { no, yes };

struct SaveOptions {
  std::int64_t keep = 2;                             ///< newest checkpoints that stay; 0 keeps all
  std::int64_t keep_every = 0;                       ///< and those of its multiples, of steps; 0: none
  std::int64_t slab_bytes = std::int64_t{64} << 20;  ///< a checksum each; at most 64 MiB
  std::int64_t alignment = std::int64_t{4} << 20;    ///< of datasets at least that large, in the file
  bool direct_io = true;                             ///< leaves out the page cache, where that can be
  ReadBack read_back = ReadBack::yes;
  /// Called on the save's thread before it reads the slices' memory for the first time; returns once that
  /// holds what is to be saved. Empty: it does from the beginning.
  std::function<void()> await_slices;
  /// Called as a stage ends, on the ranks that take part and the save's thread: prepared, shard_written,
  /// index_written, manifest_written, renamed, latest_moved, old_removed. Tests fail or kill the process
  /// there.
  std::function<void(const char* stage)> on_stage;
};

struct SaveReport {
  bool ok = false;         ///< the same on every rank: the checkpoint is complete, durable, and has its name
  std::string reason;      ///< one line: why not, and what could not be tidied up. Rank 0 knows the failing
                           ///< rank's reason
  std::string path;        ///< CHECKPOINTS_DIR/step-N
  std::int64_t bytes = 0;  ///< of state; rank 0: of all ranks; others: their own
  double seconds = 0;      ///< from its begin to its end
  double write_seconds = 0;  ///< of this rank's file: checksums, writes, fsync
  double read_back_seconds = 0;
};

enum class Wait : std::uint8_t { no, yes };

/// A save under way: CHECKPOINTS_DIR/step-N. It never throws for a failing disk: see SaveReport.
class Save {
 public:
  /// Collective over the hooks; begins at once. The slices of all ranks must cover every unit once for each
  /// role (a role that nobody holds is left out). Their memory is read from options.await_slices on, and
  /// stays as it is to the end.
  Save(const std::string& checkpoints_dir, const RunState& run, const std::vector<Unit>& units,
       std::vector<StateSlice> slices, Hooks hooks, const SaveOptions& options = {});
  /// Waits for what its thread is at; a save that is not at its end leaves a *.tmp behind.
  ~Save();
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;

  /// Collective, with the same `wait` on all ranks. Whether the save is at its end: no looks whether all
  /// ranks are done with what they are at, and lets them begin the next part, yes waits for the end.
  bool advance(Wait wait);
  /// Of a save at its end.
  const SaveReport& report() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A save from begin to end. Collective over the hooks.
SaveReport save(const std::string& checkpoints_dir, const RunState& run, const std::vector<Unit>& units,
                std::span<const StateSlice> slices, const Hooks& hooks, const SaveOptions& options = {});

}  // namespace weft::ckpt
