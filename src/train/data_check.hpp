// Reads the bodies of a run's token files once, while it trains, and tells when one is not what was written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ckpt/state.hpp"
#include "comm/world.hpp"
#include "data/token_file.hpp"

namespace weft::train {

/// Each file on storage is read by one of the ranks that have it in common, on a thread of low priority.
class DataCheck {
 public:
  /// How far a rank is. The largest of all ranks' is how far the run is.
  enum class State : std::uint8_t { done, under_way, failed };

  /// Collective; begins at once. `described` are the files' descriptions, in their order. Files that `saved`,
  /// of the checkpoint that the run goes on from, calls verified, and that have not changed since, are not
  /// read again.
  DataCheck(comm::World& world, std::vector<data::TokenFile> files, std::vector<ckpt::DataFile> described,
            const std::vector<ckpt::DataFile>& saved);
  /// Stops reading. A read that storage does not answer is left behind.
  ~DataCheck();
  DataCheck(const DataCheck&) = delete;
  DataCheck& operator=(const DataCheck&) = delete;

  /// How far this rank is.
  State state() const;
  /// Bytes that this rank has left to read.
  std::int64_t bytes_left() const;
  /// Says now and then, on rank 0, how long it takes: `bytes_left` is the most of all ranks.
  void tell(std::int64_t bytes_left);
  /// Waits until this rank is at the end, for so many seconds at most.
  void wait(double seconds) const;
  /// Throws what this rank has found, if its state is `failed`.
  void rethrow() const;

  /// Collective: the descriptions as they are now. Those files are marked as verified that are one and the
  /// same for all ranks, and have been read whole by whoever reads them.
  std::vector<ckpt::DataFile> verified() const;

 private:
  struct Reading;
  void share_out(const std::vector<data::TokenFile>& files, const std::vector<ckpt::DataFile>& saved);

  comm::World& world_;
  std::vector<ckpt::DataFile> described_;
  std::vector<std::string> marks_;  ///< by file: its identity where all ranks have the same, else empty
  double told_;                     ///< when something was said last, as seconds_now()
  std::int64_t left_then_ = 0;
  std::shared_ptr<Reading> reading_;  ///< with the thread, which may outlive this
  std::thread thread_;
};

}  // namespace weft::train
