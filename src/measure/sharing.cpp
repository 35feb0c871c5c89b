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
  Together t{median(std::move(gather)), median(std::move(reduce)), median(std::move(both))};
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
  /// Bytes that a rank has sent so far, in whole collectives.
  double sent() const {
    double bytes = 0;
    for (const comm::Event& e : events_)
      if (comm::done(e)) bytes += bytes_;
    return bytes;
  }
  void finish() {
    for (const comm::Event& e : events_) comm::sync(e);
  }

 private:
  Exchanges& x_;
  double bytes_;
  std::vector<comm::Event> events_;
};

/// Fills in what is lost when kernels and collectives run side by side.
void measure_beside(Exchanges& x, comm::World& world, double bytes, const std::function<void()>& compute,
                    double seconds, machine::Sharing& sharing) {
  Stream stream(x, bytes);
  constexpr int probe = 4;  // pairs
  const auto alone_once = [&] {
    stream.start(probe);
    stream.finish();
  };
  alone_once();
  const double alone = time_together(world, 3, alone_once);
  const double rate = 2 * probe * bytes / alone;
  world.barrier();
  const double first = slowest(world, seconds_of(compute));
  // Enough for the compute to end first although it is slowed down; what is left over runs out behind it.
  const int pairs = static_cast<int>(std::ceil(2 * std::max(first, 0.05) * rate / (2 * bytes))) + 2;
  const int repeats = static_cast<int>(std::clamp(seconds / (4 * first), 1.0, 5.0));
  std::vector<double> stolen, speed;
  for (int i = 0; i < repeats; ++i) {
    world.barrier();
    const double busy = seconds_of(compute);
    world.barrier();
    stream.start(pairs);
    const double beside = seconds_of(compute);
    const double sent = stream.sent();
    stream.finish();
    stolen.push_back(sent > 0 ? (beside - busy) / sent : 0);
    speed.push_back(sent / beside / rate);
  }
  sharing.stolen_s_per_byte = std::max(0.0, slowest(world, median(std::move(stolen))));
  sharing.beside_compute = std::clamp(-slowest(world, -median(std::move(speed))), 0.05, 1.0);
}

}  // namespace

machine::Sharing measure_sharing(Exchanges& x, comm::World& world, double bytes,
                                 const std::function<void()>& compute, double seconds) {
  machine::Sharing sharing;
  std::vector<double> speeds;
  for (const double size : {bytes, bytes / 4, bytes / 16}) {
    const Together once = time_both(x, world, size, 1);
    const double round = once.gather + once.reduce + once.both;
    const Together t = time_both(x, world, size, static_cast<int>(std::clamp(seconds / 6 / round, 1.0, 7.0)));
    speeds.push_back(speed_of_both(t));
    if (size == bytes) sharing.link_bytes_per_s = 2 * x.sent(ir::Op::all_gather, size, DType::f32) / t.both;
  }
  sharing.both_lanes = median(speeds);
  measure_beside(x, world, std::min(bytes, 4.0 * (1 << 20)), compute, seconds / 2, sharing);
  return sharing;
}

}  // namespace weft::measure
