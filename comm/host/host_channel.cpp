#include "comm/host/host_channel.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"

namespace weft::comm::detail {
namespace {

/// The most calls of one group that run at a time; with more, each of them would only take longer.
constexpr std::size_t max_active = 8;
constexpr std::uint64_t tag_mask = 0x3fff;  // MPI guarantees tags up to 32767
constexpr int point_to_point_tag = 0x4000;

bool is_collective(CallKind kind) {
  return kind != CallKind::send && kind != CallKind::recv && kind != CallKind::barrier;
}

}  // namespace

bool HostChannel::ChannelTimeline::done(std::uint64_t value) {
  if (HostTimeline::done(value)) return true;
  if (channel_.engine_.drive() == Engine::Drive::thread) return false;
  channel_.engine_.poll();
  return HostTimeline::done(value);
}

/// The values of the timeline are the numbers of the channel's calls.
void HostChannel::ChannelTimeline::sync(std::uint64_t value) {
  if (HostTimeline::done(value)) return;
  ChannelRecord* const record = channel_.record();
  if (record != nullptr) record->host_waits(value);
  wait(value);
  if (record != nullptr) record->host_goes_on();
}

void HostChannel::ChannelTimeline::wait(std::uint64_t value) {
  if (channel_.engine_.drive() == Engine::Drive::thread) return HostTimeline::sync(value);
  while (!done(value)) {
    const timespec pause{0, 20'000};
    // It waits for a dependency that another thread completes.
    if (!channel_.engine_.poll()) nanosleep(&pause, nullptr);
  }
}

HostChannel::HostChannel(Engine& engine, Setup setup)
    : Channel(setup.rank, setup.size, setup.lane, std::move(setup.name)),
      engine_(engine),
      chunk_bytes_(std::max<std::int64_t>(8, setup.chunk_bytes / 8 * 8)),
      transport_(std::move(setup.transport)),
      delay_ns_(std::move(setup.delay_ns)),
      timeline_(*this),
      ranks_(std::move(setup.ranks)),
      host_of_(std::move(setup.host_of)),
      send_tags_(static_cast<std::size_t>(setup.size)),
      recv_tags_(static_cast<std::size_t>(setup.size)),
      pending_(64) {
  active_.reserve(max_active);
  others_ = peers([&](int r) { return r != rank(); });
  engine_.attach(this);
}

HostChannel::~HostChannel() {
  const bool unwinding = std::uncaught_exceptions() > 0;
  if (!unwinding) timeline_.sync(submitted_);
  engine_.detach(this);
  // The transport's handles belong to the engine's thread. When an error ends the run they are abandoned,
  // because messages may be under way, and the other ranks may be anywhere.
  engine_.run([&] { unwinding ? static_cast<void>(transport_.release()) : transport_.reset(); });
  for (std::size_t i = 0; i < pending_count_ + active_.size(); ++i) engine_.work_done();
}

PendingCall& HostChannel::draw(CallKind kind, Deps deps, std::int64_t count, DType dtype) {
  WEFT_REQUIRE(count >= 0, "{} on channel {} with a count of {}", name_of(kind), name(), count);
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      drawn_ = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (!drawn_) drawn_ = std::make_unique<PendingCall>();
  PendingCall& o = *drawn_;
  o.record = FinishedCall{kind, lane(), dtype, count, ++submitted_, 0, 0, 0};
  o.deps.assign(deps.begin(), deps.end());
  o.reduce = ReduceScatter{};
  o.reduce.count = count;
  o.reduce.wire = dtype;
  o.bytes = count * static_cast<std::int64_t>(size_of(dtype));
  o.peer = -1;
  o.group = group_;
  o.phase = 0;
  o.finished = false;
  o.not_before_ns = -1;
  o.not_done_before_ns = 0;
  o.through = Through::messages;
  o.copied = 0;
  o.meeting = 0;
  // Every rank draws the same tag for the same collective. Sends and receives have tags for each pair of
  // ranks instead.
  if (kind != CallKind::send && kind != CallKind::recv) {
    o.tag = static_cast<int>(collective_tags_++ & tag_mask);
    o.serial = collective_tags_;
  }
  return o;
}

Event HostChannel::submit(PendingCall& call) {
  const Event event{&timeline_, call.record.sequence};
  call.ticket = record_enqueued(call.record.kind, call.bytes, call.peer);
  {
    std::lock_guard lock(mutex_);
    if (pending_count_ == pending_.size()) {
      std::rotate(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(first_), pending_.end());
      first_ = 0;
      pending_.resize(2 * pending_.size());
    }
    pending_[(first_ + pending_count_++) % pending_.size()] = std::move(drawn_);
  }
  engine_.work_added();
  if (engine_.drive() == Engine::Drive::caller) {
    while (engine_.poll()) {
    }
  }
  return event;
}

Event HostChannel::all_gather(Deps deps, const void* in, void* out, std::int64_t count, DType dtype) {
  PendingCall& o = draw(CallKind::all_gather, deps, count, dtype);
  o.reduce.in = in;
  o.reduce.out = out;
  return submit(o);
}

Event HostChannel::all_gather_rows(Deps deps, const void* in, void* out, std::int64_t count, DType dtype,
                                   const UsedRows& rows) {
  PendingCall& o = draw(CallKind::all_gather, deps, count, dtype);
  o.reduce.in = in;
  o.reduce.out = out;
  o.reduce.rows = &rows;
  return submit(o);
}

Event HostChannel::reduce_scatter(Deps deps, const ReduceScatter& what) {
  const auto known = [](DType t) { return t == DType::f32 || t == DType::bf16; };
  WEFT_REQUIRE(known(what.wire) && known(what.out_type) && what.sum == DType::f32,
               "cannot reduce-scatter {} in {} into {} (sums are f32, of f32 or bf16)",
               weft::name_of(what.wire), weft::name_of(what.sum), weft::name_of(what.out_type));
  PendingCall& o = draw(CallKind::reduce_scatter, deps, what.count, what.wire);
  o.reduce = what;
  return submit(o);
}

Event HostChannel::all_reduce(Deps deps, void* buffer, std::int64_t count, DType dtype, ReduceOp op) {
  const bool known = size_of(dtype) >= 4;
  WEFT_REQUIRE(known, "cannot all-reduce {} (f32, f64, i32, i64, u32, u64 only)", weft::name_of(dtype));
  PendingCall& o = draw(CallKind::all_reduce, deps, count, dtype);
  o.reduce.out = buffer;
  o.reduce_op = op;
  return submit(o);
}

Event HostChannel::broadcast(Deps deps, void* buffer, std::int64_t bytes, int root) {
  PendingCall& o = draw(CallKind::broadcast, deps, bytes, DType::u8);
  o.reduce.out = buffer;
  o.peer = root;
  return submit(o);
}

Event HostChannel::all_to_all(Deps deps, const void* in, void* out, std::int64_t count, DType dtype) {
  PendingCall& o = draw(CallKind::all_to_all, deps, count, dtype);
  o.reduce.in = in;
  o.reduce.out = out;
  return submit(o);
}

Event HostChannel::send(Deps deps, const void* buffer, std::int64_t bytes, int peer) {
  WEFT_REQUIRE(peer >= 0 && peer < size() && peer != rank(), "rank {} cannot send to rank {} of {}", rank(),
               peer, size());
  PendingCall& o = draw(CallKind::send, deps, bytes, DType::u8);
  o.reduce.in = buffer;
  o.peer = peer;
  o.tag = point_to_point_tag | static_cast<int>(send_tags_[static_cast<std::size_t>(peer)]++ & tag_mask);
  return submit(o);
}

Event HostChannel::recv(Deps deps, void* buffer, std::int64_t bytes, int peer) {
  WEFT_REQUIRE(peer >= 0 && peer < size() && peer != rank(), "rank {} cannot receive from rank {} of {}",
               rank(), peer, size());
  PendingCall& o = draw(CallKind::recv, deps, bytes, DType::u8);
  o.reduce.out = buffer;
  o.peer = peer;
  o.tag = point_to_point_tag | static_cast<int>(recv_tags_[static_cast<std::size_t>(peer)]++ & tag_mask);
  return submit(o);
}

Event HostChannel::barrier(Deps deps) {
  return submit(draw(CallKind::barrier, deps, 0, DType::u8));
}

void HostChannel::group_begin() {
  group_ = ++groups_;
}
void HostChannel::group_end() {
  group_ = 0;
}

template <class IsPeer>
Peers HostChannel::peers(IsPeer&& is_peer) const {
  Peers p;
  for (int r = 0; r < size(); ++r) {
    p.with.push_back(is_peer(r) ? 1 : 0);
    p.place.push_back(p.count);
    p.count += p.with.back();
  }
  return p;
}

void HostChannel::share(Window& window, SharedGathers gathers) {
  const auto ranks = static_cast<std::size_t>(size());
  WEFT_REQUIRE(host_of_.size() == ranks && size() > 1, "channel {} does not know its hosts", name());
  const auto host = [&](int r) { return host_of_[static_cast<std::size_t>(r)]; };
  const auto place = [&](int r) {  // a rank's place in its team
    return static_cast<int>(std::count(host_of_.begin(), host_of_.begin() + r, host(r)));
  };
  const int mine = place(rank());
  abroad_ = peers([&](int r) { return host(r) != host(rank()); });
  counterparts_ = peers([&](int r) { return host(r) != host(rank()) && place(r) == mine; });
  member_of_.assign(ranks, -1);
  team_.clear();
  for (int r = 0; r < size(); ++r) {
    if (host(r) != host(rank())) continue;
    const int member = window.member_of(ranks_[static_cast<std::size_t>(r)]);
    WEFT_REQUIRE(member >= 0, "the window of {} ranks has not all of channel {}'s team", window.size(),
                 name());
    member_of_[static_cast<std::size_t>(r)] = member;
    team_.push_back(member);
  }
  window_ = &window;
  gathers_ = gathers;
}

// The head of the queue if it may start: alone, or beside calls of its own group.
PendingCall* HostChannel::next_ready() {
  PendingCall* head = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (pending_count_ > 0) head = pending_[first_].get();
  }
  if (head == nullptr || active_.size() == max_active) return nullptr;
  at_hand_ = head;
  if (!active_.empty() && (head->group == 0 || head->group != active_.front()->group)) return nullptr;
  const auto sends_rows = [](const auto& o) { return o->reduce.rows != nullptr; };
  if (head->reduce.rows != nullptr && std::any_of(active_.begin(), active_.end(), sends_rows)) return nullptr;
  if (!std::all_of(head->deps.begin(), head->deps.end(), [](const Event& e) { return comm::done(e); }))
    return nullptr;
  if (delay_ns_ && head->not_before_ns < 0) head->not_before_ns = nanoseconds_now() + delay_ns_();
  return head->not_before_ns > nanoseconds_now() ? nullptr : head;
}

bool HostChannel::admit() {
  bool moved = false;
  while (PendingCall* o = next_ready()) {
    o->record.start_ns = nanoseconds_now();
    if (record() != nullptr) record()->started(o->ticket);
    o->through = way_of(*o);
    if (active_.empty()) busy_since_ns_ = o->record.start_ns;
    {
      std::lock_guard lock(mutex_);
      active_.push_back(std::move(pending_[first_]));
      first_ = (first_ + 1) % pending_.size();
      --pending_count_;
    }
    if (!start_phase(*o)) finish(*o);
    moved = true;
  }
  return moved;
}

bool HostChannel::advance(PendingCall& o) {
  if (o.finished) return false;
  at_hand_ = &o;
  if (o.meeting != 0 && !window_->signals().all_arrived(team_, lane(), o.serial, o.meeting)) return false;
  o.meeting = 0;
  const std::int64_t before = o.run.bytes_done();
  bool moved = o.run.progress(transport_.get());
  bytes_done_ += o.run.bytes_done() - before;
  combine_portions(o);
  if (copies_blocks(o)) {
    copy_block(o);
    moved = true;
  }
  if (!o.run.finished() || copies_blocks(o)) return moved;
  o.record.bytes += o.record.kind == CallKind::barrier ? 0 : o.run.bytes_sent();
  ++o.phase;
  if (!start_phase(o)) finish(o);
  return true;
}

void HostChannel::finish(PendingCall& o) {
  o.finished = true;
  if (delay_ns_) o.not_done_before_ns = nanoseconds_now() + delay_ns_();
}

bool HostChannel::retire() {
  bool moved = false;
  while (!active_.empty() && active_.front()->finished &&
         active_.front()->not_done_before_ns <= nanoseconds_now()) {
    PendingCall& o = *active_.front();
    at_hand_ = &o;
    o.record.end_ns = nanoseconds_now();
    bytes_sent_.fetch_add(o.record.bytes, std::memory_order_relaxed);
    if (is_collective(o.record.kind)) collectives_.fetch_add(1, std::memory_order_relaxed);
    if (active_.size() == 1) {
      busy_ns_.fetch_add(static_cast<std::uint64_t>(o.record.end_ns - busy_since_ns_),
                         std::memory_order_relaxed);
    }
    if (observer_) observer_(o.record);
    if (record() != nullptr) record()->done(o.ticket);
    const std::uint64_t sequence = o.record.sequence;
    {
      std::lock_guard lock(mutex_);
      free_.push_back(std::move(active_.front()));
    }
    active_.erase(active_.begin());
    engine_.work_done();
    timeline_.complete(sequence);
    moved = true;
  }
  return moved;
}

std::int64_t HostChannel::bytes_in_flight() const {
  std::int64_t sum = 0;
  for (const auto& o : active_) sum += o->run.bytes_in_flight();
  return sum;
}

bool HostChannel::meets() const {
  return std::any_of(active_.begin(), active_.end(),
                     [](const auto& o) { return o->meeting != 0 && !o->finished; });
}

bool HostChannel::progress() {
  try {
    bool moved = admit();
    for (auto& o : active_) moved |= advance(*o);
    return retire() || moved;
  } catch (const std::exception& e) {
    fail(e);
  }
}

void HostChannel::fail(const std::exception& e) {
  const FinishedCall& call = at_hand_->record;
  engine_.fail(
      fmt::format("{} #{} on channel {} failed: {}", name_of(call.kind), call.sequence, name(), e.what()),
      exit_code_of(e));
  std::terminate();
}

}  // namespace weft::comm::detail
