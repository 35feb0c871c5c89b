#include "measure/exchanges.hpp"

#include <algorithm>
#include <limits>

#include "base/device.hpp"
#include "measure/timing.hpp"
#include "runtime/memory_usage.hpp"

namespace weft::measure {
namespace {

/// Bytes that a rank holds for each byte that it sends. A rank that sends s bytes to R - 1 others holds s /
/// (R - 1) as its part, and R such parts as the whole. It holds both once for gathers, and both once for
/// reductions.
double held_a_byte(int ranks) {
  return 2.0 * (ranks + 1) / (ranks - 1);
}

/// Bytes that a rank sends for each byte that is summed: a part goes to each of the other ranks, and its sum
/// comes back.
double sent_of_summed(int ranks) {
  return 2.0 * (ranks - 1) / ranks;
}

/// How many f32 elements a sum has in which a rank sends about `bytes`.
std::int64_t elements_of_sum(double bytes, int ranks) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / sent_of_summed(ranks) / 4));
}

/// Collective: `bytes`, halved until half of the host's memory is enough on every rank, when a rank holds
/// `held_a_byte` for each byte.
double what_fits(runtime::Session& session, double bytes, double held_a_byte) {
  double available = std::numeric_limits<double>::max();
  if (device_is_host())
    if (const auto memory = runtime::available_memory()) available = static_cast<double>(*memory);
  available = -slowest(session.world(), -available / session.world().node_size());
  while (bytes > 1024 && bytes * held_a_byte + (64 << 20) > available / 2) bytes /= 2;
  return bytes;
}

/// Replaces the buffer by one of at least `bytes`.
void make_room(kernels::Buffer& buffer, std::int64_t bytes, const char* label) {
  buffer = kernels::Buffer();  // free the smaller one first
  buffer = kernels::Buffer(static_cast<std::size_t>(bytes) + 256, label);
}

}  // namespace

std::int64_t elements_of_part(double bytes, int ranks, DType wire) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(bytes / (ranks - 1) / static_cast<double>(size_of(wire))));
}

ExchangeBytes exchange_bytes(double bytes, int ranks) {
  const std::int64_t floats = elements_of_part(bytes, ranks, DType::f32);
  const std::int64_t halves = elements_of_part(bytes, ranks, DType::bf16);
  const std::int64_t part = std::max(4 * floats, 2 * halves);
  return {part, std::max(part * ranks, 4 * elements_of_sum(bytes, ranks)), 4 * std::max(floats, halves)};
}

Exchanges::Exchanges(runtime::Session& session, double bytes, ReduceOrder order)
    : session_(session),
      ranks_(session.shards()),
      order_(order),
      most_(what_fits(session, bytes, held_a_byte(ranks_))) {}

void Exchanges::hold(double bytes) {
  if (bytes <= held_) return;
  held_ = bytes;
  const ExchangeBytes room = exchange_bytes(bytes, ranks_);
  make_room(shard_, room.part, "weft::measure::shard");
  make_room(gathered_, room.whole, "weft::measure::gathered");
  make_room(gradient_, room.whole, "weft::measure::gradient");
  make_room(sum_, room.sum, "weft::measure::sum");
  std::size_t scratch = 0;
  for (const DType wire : {DType::f32, DType::bf16})
    scratch =
        std::max(scratch, comm::reduce_scatter_scratch_bytes(ranks_, elements(bytes, wire), wire, order_));
  make_room(scratch_, static_cast<std::int64_t>(scratch), "weft::measure::scratch");
  kernels::fence(session_.space());
}

double Exchanges::sent(ir::Op op, double bytes, DType wire) const {
  if (op == ir::Op::all_reduce)
    return static_cast<double>(elements_of_sum(bytes, ranks_)) * 4 * sent_of_summed(ranks_);
  return static_cast<double>(elements(bytes, wire)) * static_cast<double>(size_of(wire)) * (ranks_ - 1);
}

double Exchanges::busy_seconds() const {
  return (session_.channel(Lane::gather)->busy_seconds() + session_.channel(Lane::reduce)->busy_seconds()) /
         2;
}

comm::Event Exchanges::gather(double bytes) {
  return session_.channel(Lane::gather)
      ->all_gather({}, shard_.data(), gathered_.data(), elements(bytes, DType::f32), DType::f32);
}

comm::Event Exchanges::reduce(double bytes, DType wire) {
  comm::ReduceScatter what;
  what.in = gradient_.data();
  what.out = sum_.data();
  what.scratch = scratch_.data();
  what.count = elements(bytes, wire);
  what.wire = wire;
  what.write = WriteMode::add;
  what.order = order_;
  return session_.channel(Lane::reduce)->reduce_scatter({}, what);
}

comm::Event Exchanges::all_reduce(double bytes) {
  return session_.channel(Lane::reduce)
      ->all_reduce({}, gradient_.data(), elements_of_sum(bytes, ranks_), DType::f32, comm::ReduceOp::sum);
}

ReplicaSums::ReplicaSums(runtime::Session& session, double bytes, ReduceOrder order)
    : session_(session),
      ranks_(session.replicas()),
      most_(what_fits(session, bytes, 4 / sent_of_summed(ranks_))),
      order_(order) {}

void ReplicaSums::hold(double bytes) {
  if (bytes <= held_) return;
  held_ = bytes;
  make_room(sum_, elements(bytes) * 4, "weft::measure::replicas");
  make_room(scratch_,
            static_cast<std::int64_t>(
                comm::reduce_scatter_scratch_bytes(ranks_, elements(bytes) / ranks_, DType::f32, order_)),
            "weft::measure::replicas_scratch");
  kernels::fence(session_.space());
}

std::int64_t ReplicaSums::elements(double bytes) const {
  return (elements_of_sum(bytes, ranks_) + ranks_ - 1) / ranks_ * ranks_;  // a part for each rank
}

double ReplicaSums::sent(double bytes) const {
  return static_cast<double>(elements(bytes)) * 4 * sent_of_summed(ranks_);
}

double ReplicaSums::busy_seconds() const {
  return session_.channel(Lane::replica)->busy_seconds();
}

comm::Event ReplicaSums::start(double bytes) {
  comm::Channel& channel = *session_.channel(Lane::replica);
  if (order_ == ReduceOrder::native)
    return channel.all_reduce({}, sum_.data(), elements(bytes), DType::f32, comm::ReduceOp::sum);
  comm::ReduceScatter part;
  part.in = sum_.data();
  part.count = elements(bytes) / ranks_;
  part.out = sum_.data() + channel.rank() * part.count * static_cast<std::int64_t>(sizeof(float));
  part.scratch = scratch_.data();
  channel.reduce_scatter({}, part);
  return channel.all_gather({}, part.out, sum_.data(), part.count, DType::f32);
}

}  // namespace weft::measure
