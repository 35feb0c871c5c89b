#include "comm/recorder.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace weft::comm {

std::int64_t Recorder::now_ns() {
  return nanoseconds_now();
}

std::size_t Recorder::open(std::string name, std::vector<int> ranks, bool ends_seen) {
  const std::lock_guard lock(mutex_);
  const auto alike = std::count_if(channels_.begin(), channels_.end(), [&](const Channel& c) {
    return c.state.name == name && c.state.ranks == ranks;
  });
  Channel channel;
  channel.state.name = std::move(name);
  channel.state.ranks = std::move(ranks);
  channel.state.opened = static_cast<int>(alike);
  channel.state.ends_seen = ends_seen;
  channels_.push_back(std::move(channel));
  return channels_.size() - 1;
}

void Recorder::close(std::size_t channel) {
  const std::lock_guard lock(mutex_);
  channels_[channel].state.open = false;
}

Recorder::Ticket Recorder::enqueued(std::size_t channel, const Call& call) {
  const std::int64_t now = now_ns();
  const std::lock_guard lock(mutex_);
  RecordedChannel& state = channels_[channel].state;
  if (call.collective) ++state.enqueued;
  const std::uint64_t place = ++channels_[channel].calls;
  RecordedCall& slot = ring_[numbers_ % capacity];
  if (waits(slot) && channels_[slot.channel].kept.number == 0) channels_[slot.channel].kept = slot;
  slot.number = ++numbers_;
  slot.channel = channel;
  slot.kind = call.kind;
  slot.bytes = call.bytes;
  slot.peer = call.peer;
  slot.collective = call.collective;
  slot.sequence = state.enqueued;
  slot.place = place;
  slot.step = step_;
  slot.label.fill('\0');
  call.label.copy(slot.label.data(), slot.label.size() - 1);
  slot.enqueued_ns = last_ns_ = now;
  slot.started_ns = slot.done_ns = 0;
  return slot;
}

void Recorder::started(std::size_t channel, const Ticket& ticket) {
  const std::int64_t now = now_ns();
  const std::lock_guard lock(mutex_);
  last_ns_ = now;
  if (ticket.collective) channels_[channel].state.started = ticket.sequence;
  if (RecordedCall* const o = find(channel, ticket.number)) {
    o->started_ns = now;
    return;
  }
  RecordedCall call = ticket;
  call.started_ns = now;
  if (waits(call) && channels_[channel].kept.number == 0) channels_[channel].kept = call;
}

void Recorder::done(std::size_t channel, const Ticket& ticket) {
  const std::int64_t now = now_ns();
  const std::lock_guard lock(mutex_);
  last_ns_ = now;
  if (ticket.collective) channels_[channel].state.done = ticket.sequence;
  if (RecordedCall* const o = find(channel, ticket.number)) o->done_ns = now;
  RecordedCall& kept = channels_[channel].kept;
  if (kept.number == ticket.number) kept.number = 0;
}

RecordedCall* Recorder::find(std::size_t channel, std::uint64_t number) {
  RecordedCall& slot = ring_[(number - 1) % capacity];
  if (slot.number == number) return &slot;
  RecordedCall& kept = channels_[channel].kept;
  return kept.number == number ? &kept : nullptr;
}

bool Recorder::waits(const RecordedCall& o) const {
  const bool on_its_way = o.number != 0 && o.started_ns != 0 && o.done_ns == 0;
  return on_its_way && channels_[o.channel].state.open && channels_[o.channel].state.ends_seen;
}

void Recorder::host_waits(std::size_t channel, std::uint64_t place) {
  const std::lock_guard lock(mutex_);
  waited_channel_ = channel;
  waited_place_ = place;
}

void Recorder::host_goes_on() {
  const std::lock_guard lock(mutex_);
  waited_place_ = 0;
}

void Recorder::set_activity(std::string_view activity, std::int64_t step) {
  const std::int64_t now = now_ns();
  const std::lock_guard lock(mutex_);
  activity_ = activity;
  step_ = step;
  activity_ns_ = last_ns_ = now;
}

RecordedCalls Recorder::read() const {
  RecordedCalls all;
  const std::lock_guard lock(mutex_);
  for (const Channel& c : channels_) {
    all.channels.push_back(c.state);
    if (c.kept.number != 0) all.calls.push_back(c.kept);
  }
  for (const RecordedCall& o : ring_)
    if (o.number != 0) all.calls.push_back(o);
  std::sort(all.calls.begin(), all.calls.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  for (RecordedCall& o : all.calls)
    o.host_waits = o.channel == waited_channel_ && o.place <= waited_place_ && o.done_ns == 0;
  all.activity = activity_;
  all.step = step_;
  all.activity_ns = activity_ns_;
  all.last_ns = last_ns_;
  all.now_ns = now_ns();
  return all;
}

std::optional<RecordedCall> Recorder::oldest_waiting() const {
  const std::lock_guard lock(mutex_);
  const RecordedCall* oldest = nullptr;
  const auto look = [&](const RecordedCall& o) {
    if (waits(o) && (oldest == nullptr || o.started_ns < oldest->started_ns)) oldest = &o;
  };
  for (const Channel& c : channels_) look(c.kept);
  for (const RecordedCall& o : ring_) look(o);
  return oldest == nullptr ? std::nullopt : std::optional(*oldest);
}

std::int64_t Recorder::last_ns() const {
  const std::lock_guard lock(mutex_);
  return last_ns_;
}

}  // namespace weft::comm
