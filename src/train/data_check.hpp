// Reads the bodies of a run's token files once, while it trains, and tells when one is not what was written.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/check.hpp"
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
  /// Stops reading.
  ~DataCheck();
  DataCheck(const DataCheck&) = delete;
  DataCheck& operator=(const DataCheck&) = delete;

  /// How far this rank is.
  State state() const { return state_; }
  /// Waits until this rank is at the end, for so many seconds at most.
  void wait(double seconds) const;
  /// Throws what this rank has found, if its state is `failed`.
  void rethrow() const;

  /// The descriptions as they were given.
  const std::vector<ckpt::DataFile>& described() const { return described_; }
  /// The descriptions once all ranks are done: a file that is one and the same for all of them is marked as
  /// verified.
  std::vector<ckpt::DataFile> verified() const;

 private:
  void share_out(comm::World& world, const std::vector<ckpt::DataFile>& saved);
  void run();
  void read(const data::TokenFile& file);

  std::vector<data::TokenFile> files_;
  std::vector<ckpt::DataFile> described_;
  std::vector<std::string> marks_;  ///< by file: its identity where all ranks have the same, else empty
  std::vector<std::size_t> mine_;   ///< places of the files that this rank reads
  std::string problem_;             ///< written before the state becomes `failed`
  ExitCode code_ = ExitCode::ok;
  std::atomic<State> state_{State::under_way};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace weft::train
