// Reads the whole of a run's token files once, while it trains, and tells when one is not what was written.
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

/// Checks the token files. Each file on storage is read by one of the ranks that have it in common, on a
/// thread of low priority.
class DataCheck {
 public:
  /// How far a rank has come. The largest value of all ranks tells how far the run has come.
  enum class State : std::uint8_t { done, under_way, failed };

  /// Collective: begins the check at once. `described` are the files' descriptions, in their order. `saved`
  /// are those of the checkpoint that the run goes on from: files that it calls verified, and that have not
  /// changed since, are not read again.
  DataCheck(comm::World& world, const std::vector<data::TokenFile>& files,
            std::vector<ckpt::DataFile> described, const std::vector<ckpt::DataFile>& saved);
  /// Stops reading. A thread whose read storage does not answer is left behind.
  ~DataCheck();
  DataCheck(const DataCheck&) = delete;
  DataCheck& operator=(const DataCheck&) = delete;

  /// How far this rank has come.
  State state() const;
  /// Bytes that this rank has left to read.
  std::int64_t bytes_left() const;
  /// Logs now and then on rank 0 how long the check still takes; `bytes_left` is the most that any rank has
  /// left.
  void tell(std::int64_t bytes_left);
  /// Waits until this rank is done, but at most this many seconds.
  void wait(double seconds) const;
  /// Throws what this rank has found, if its state is `failed`.
  void rethrow() const;

  /// Collective: the descriptions as they are now. A file is marked as verified when it is one and the same
  /// for all ranks, and has been read whole by the rank that reads it.
  std::vector<ckpt::DataFile> verified() const;

 private:
  struct Reading;
  void share_out(const std::vector<data::TokenFile>& files, const std::vector<ckpt::DataFile>& saved);

  comm::World& world_;
  std::vector<ckpt::DataFile> described_;
  std::vector<std::string> marks_;  ///< each file's identity where all ranks have the same, else empty
  double told_;                     ///< when something was logged last, as seconds_now()
  std::int64_t left_then_ = 0;
  std::shared_ptr<Reading> reading_;  ///< shared with the thread, which may outlive this object
  std::thread thread_;
};

}  // namespace weft::train
