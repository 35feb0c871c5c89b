// The recorder keeps the last calls of a rank over all its channels, for the day on which one of them hangs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::comm {

/// A call as it is kept. Times are nanoseconds of steady_clock; 0: not yet.
struct RecordedCall {
  std::uint64_t number = 0;  ///< number among this rank's calls, from 1; 0: none
  std::size_t channel = 0;   ///< index into RecordedCalls::channels
  std::string_view kind;     ///< "all_gather"; the text is of static storage
  std::int64_t bytes = 0;    ///< size of one rank's block
  /// Rank in the channel: the root of a broadcast, or the other rank of a send or recv.
  int peer = -1;
  bool collective = true;  ///< false for send and recv
  /// The number of the collective on its channel, from 1: the same on all its ranks. A send or recv has that
  /// of the collective before it.
  std::uint64_t sequence = 0;
  std::uint64_t place = 0;       ///< its number among all calls of its channel, messages too, from 1
  bool host_waits = false;       ///< whether the host goes on only once it is done
  std::int64_t step = 0;         ///< step of the activity in which it was enqueued
  std::array<char, 56> label{};  ///< what it is for, cut to this length: "forward layers.3.attn"
  std::int64_t enqueued_ns = 0, started_ns = 0, done_ns = 0;
};

/// Where a channel stands: the numbers of its newest collectives that have been enqueued, have started (their
/// dependencies were done), and are done.
struct RecordedChannel {
  std::string name;
  std::vector<int> ranks;  ///< world ranks
  int opened = 0;          ///< how many channels of the same name and ranks were opened before it
  bool ends_seen = true;   ///< false: calls are enqueued on a device, and nobody records their ends
  bool open = true;
  std::uint64_t enqueued = 0, started = 0, done = 0;
  bool operator==(const RecordedChannel&) const = default;
};

/// What the recorder holds at one moment.
struct RecordedCalls {
  std::vector<RecordedChannel> channels;
  /// The last ones, and older ones that are not done; sorted by number.
  std::vector<RecordedCall> calls;
  std::string activity;  ///< what the rank does: "step", "validation"
  std::int64_t step = 0;
  std::int64_t activity_ns = 0;  ///< when the activity began
  std::int64_t last_ns = 0;      ///< when anything was last recorded
  std::int64_t now_ns = 0;
};

/// Records the calls of one rank. It may be used on any thread. Recording takes a lock for about a hundred
/// nanoseconds, and allocates nothing.
class Recorder {
 public:
  static constexpr std::size_t capacity = 256;

  /// What is known of a call when it is enqueued.
  struct Call {
    std::string_view kind;
    std::int64_t bytes = 0;
    int peer = -1;
    bool collective = true;
    std::string_view label = {};
  };
  /// Stands for a call that was enqueued. It is the call itself, because newer ones may have taken its place
  /// when it starts.
  using Ticket = RecordedCall;

  /// Adds a channel, and returns its index. All ranks of a channel open those of one name in the same order.
  std::size_t open(std::string name, std::vector<int> ranks, bool ends_seen);
  void close(std::size_t channel);

  Ticket enqueued(std::size_t channel, const Call& call);
  void started(std::size_t channel, const Ticket& ticket);
  void done(std::size_t channel, const Ticket& ticket);

  /// Says that the host waits until the channel's first `place` calls are done, and then that it goes on.
  void host_waits(std::size_t channel, std::uint64_t place);
  void host_goes_on();

  /// Sets what the rank does from here on. The text of `activity` is of static storage.
  void set_activity(std::string_view activity, std::int64_t step);

  RecordedCalls read() const;
  /// The started call that has waited longest for its end, not counting channels whose ends are not seen.
  /// Nothing when there is none.
  std::optional<RecordedCall> oldest_waiting() const;
  /// When anything was last recorded.
  std::int64_t last_ns() const;

  static std::int64_t now_ns();

 private:
  struct Channel {
    RecordedChannel state;
    std::uint64_t calls = 0;
    /// What was not done yet when a newer call took its place; number 0: nothing.
    RecordedCall kept;
  };
  /// Finds a call; null when it is no longer there.
  RecordedCall* find(std::size_t channel, std::uint64_t number);
  bool waits(const RecordedCall& call) const;

  mutable std::mutex mutex_;
  std::vector<Channel> channels_;
  std::array<RecordedCall, capacity> ring_;
  std::uint64_t numbers_ = 0;
  std::size_t waited_channel_ = 0;  ///< what the host waits for
  std::uint64_t waited_place_ = 0;  ///< 0: for nothing
  std::string_view activity_ = "start-up";
  std::int64_t step_ = 0;
  std::int64_t activity_ns_ = now_ns();
  std::int64_t last_ns_ = now_ns();
};

/// The place of a channel in a recorder, which is open as long as this object lives.
class ChannelRecord {
 public:
  ChannelRecord(std::shared_ptr<Recorder> recorder, std::string name, std::vector<int> ranks, bool ends_seen)
      : recorder_(std::move(recorder)),
        channel_(recorder_->open(std::move(name), std::move(ranks), ends_seen)) {}
  ~ChannelRecord() { recorder_->close(channel_); }
  ChannelRecord(const ChannelRecord&) = delete;
  ChannelRecord& operator=(const ChannelRecord&) = delete;

  Recorder::Ticket enqueued(const Recorder::Call& call) { return recorder_->enqueued(channel_, call); }
  void started(const Recorder::Ticket& ticket) { recorder_->started(channel_, ticket); }
  void done(const Recorder::Ticket& ticket) { recorder_->done(channel_, ticket); }
  void host_waits(std::uint64_t place) { recorder_->host_waits(channel_, place); }
  void host_goes_on() { recorder_->host_goes_on(); }

 private:
  std::shared_ptr<Recorder> recorder_;
  std::size_t channel_;
};

/// Records what runs in a block of the host as one call.
class RecordedBlock {
 public:
  /// Begins the record. `record` may be null, and then nothing is recorded.
  RecordedBlock(ChannelRecord* record, const Recorder::Call& call) : record_(record) {
    if (record_ == nullptr) return;
    ticket_ = record_->enqueued(call);
    record_->started(ticket_);
  }
  ~RecordedBlock() {
    if (record_ != nullptr) record_->done(ticket_);
  }
  RecordedBlock(const RecordedBlock&) = delete;
  RecordedBlock& operator=(const RecordedBlock&) = delete;

 private:
  ChannelRecord* record_;
  Recorder::Ticket ticket_;
};

}  // namespace weft::comm
