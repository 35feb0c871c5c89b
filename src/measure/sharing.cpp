#include "measure/sharing.hpp"

#include <algorithm>
#include <cmath>

#include "measure/timing.hpp"

namespace weft::measure {
namespace {

struct Together {
  double gather = 0, reduce = 0, both = 0;  ///< seconds
};

/// Alone and together in turns: a machine that changes its speed from minute to minute does so for all three.
Together time_both(Exchanges& x, comm::World& world, double bytes, int repeats) {
  std::vector<double> gather, reduce, both;
  for (int i = 0; i < repeats; ++i) {
    world.barrier();
    gather.push_back(seconds_of([&] { comm::sync(x.gather(bytes)); }));
    reduce.push_back(seconds_of([&] { comm::sync(x.reduce(bytes, DType::f32)); }));
    both.push_back(seconds_of([&] {
      const comm::Event first = x.gather(bytes);
      comm::sync(x.reduce(bytes, DType::f32));
      comm::sync(first);
    }));
  }
  Together t{least(gather), least(reduce), least(both)};
  t.gather = slowest(world, t.gather);
  t.reduce = slowest(world, t.reduce);
  t.both = slowest(world, t.both);
  return t;
}

/// Both run at this share of their speed until the shorter one is done; the rest of the longer one runs
/// alone.
double speed_of_both(const Together& t) {
  const double shorter = std::min(t.gather, t.reduce), longer = std::max(t.gather, t.reduce);
  const double overlapped = t.both - (longer - shorter);
  return std::clamp(shorter / std::max(overlapped, 1e-12), 0.05, 1.0);
}

/// Collectives of both lanes in a row, as many as are asked for.
class Stream {
 public:
  Stream(Exchanges& x, double bytes) : x_(x), bytes_(bytes) {}

  void start(int pairs) {
    events_.clear();
    for (int i = 0; i < pairs; ++i) {
      events_.push_back(x_.gather(bytes_));
      events_.push_back(x_.reduce(bytes_, DType::f32));
    }
  }
  /// Bytes that a rank has sent so far: whole collectives, and half of the two that are under way.
  double sent() const {
    const auto done =
        std::count_if(events_.begin(), events_.end(), [](const comm::Event& e) { return comm::done(e); });
    const auto under_way = std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(events_.size()) - done);
    return bytes_ * (static_cast<double>(done) + static_cast<double>(under_way) / 2);
  }
  void finish() {
    for (const comm::Event& e : events_) comm::sync(e);
  }

 private:
  Exchanges& x_;
  double bytes_;
  std::vector<comm::Event> events_;
};

/// Seconds of one collective in a stream: as large as a unit, because small ones cost more a byte, and still
/// several within the compute, so that they can be counted.
constexpr double piece = 25e-3;

/// Compute with a stream of collectives beside it.
struct Beside {
  double seconds = 0, sent = 0;
};

Beside run_beside(Stream& stream, comm::World& world, int pairs, const std::function<void()>& compute) {
  world.barrier();
  stream.start(pairs);
  Beside b;
  b.seconds = seconds_of(compute);
  b.sent = stream.sent();
  stream.finish();
  return b;
}

/// Fills in what is lost when kernels and collectives run side by side. `rate`: bytes a second, about, of
/// both lanes with nothing beside them.
void measure_beside(Exchanges& x, comm::World& world, double rate, const std::function<void()>& compute,
                    double seconds, machine::Sharing& sharing) {
  const double bytes = std::clamp(rate * piece, 64.0 * (1 << 10), std::min(x.most(), 16.0 * (1 << 20)));
  Stream stream(x, bytes);
  const double first = slowest(world, seconds_of(compute));
  // Enough for the compute to end first although it is slowed down; what is left over runs out behind it.
  const int pairs = static_cast<int>(std::ceil(2 * first * rate / (2 * bytes))) + 2;
  const int probe = 2 + pairs / 4;
  const int repeats = static_cast<int>(std::clamp(seconds / (4 * first), 3.0, 9.0));
  std::vector<double> busy, speeds;
  Beside best;
  for (int i = 0; i < repeats; ++i) {
    world.barrier();
    busy.push_back(seconds_of(compute));
    world.barrier();
    const double alone = seconds_of([&] {
      stream.start(probe);
      stream.finish();
    });
    const Beside b = run_beside(stream, world, pairs, compute);
    if (i == 0 || b.seconds < best.seconds) best = b;
    speeds.push_back(b.sent / b.seconds * alone / (2 * bytes * probe));
  }
  const double stolen = (best.seconds - least(busy)) / best.sent;
  const double speed = median(speeds);  // the shortest run is often one in which little was sent
  sharing.stolen_s_per_byte = std::max(0.0, slowest(world, stolen));
  sharing.beside_compute = std::clamp(-slowest(world, -speed), 0.05, 1.0);
}

/// Halves `bytes` until a round of the three takes no more than `seconds`, or the size is small.
double affordable(Exchanges& x, comm::World& world, double bytes, double seconds) {
  for (;; bytes /= 2) {
    const Together once = time_both(x, world, bytes, 1);
    if (bytes <= 1 << 20 || once.gather + once.reduce + once.both <= seconds) return bytes;
  }
}

}  // namespace

machine::Sharing measure_sharing(Exchanges& x, comm::World& world, double bytes,
                                 const std::function<void()>& compute, double seconds) {
  machine::Sharing sharing;
  bytes = affordable(x, world, bytes, seconds / 20);
  std::vector<double> speeds, rates;
  for (const double size : {bytes, bytes / 2, bytes / 4}) {
    const Together t = time_both(x, world, size, 5);
    speeds.push_back(speed_of_both(t));
    rates.push_back(2 * x.sent(ir::Op::all_gather, size, DType::f32) / t.both);
  }
  sharing.both_lanes = median(speeds);
  sharing.link_bytes_per_s = median(rates);
  measure_beside(x, world, sharing.link_bytes_per_s, compute, seconds / 2, sharing);
  return sharing;
}

}  // namespace weft::measure
