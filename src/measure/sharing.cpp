#include "measure/sharing.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "measure/timing.hpp"

namespace weft::measure {
namespace {

/// Starts a collective of some lane in which this rank sends about `bytes`.
using Start = std::function<comm::Event(double bytes)>;

Start gathers(Exchanges& x) {
  return [&x](double bytes) { return x.gather(bytes); };
}

Start reductions(Exchanges& x) {
  return [&x](double bytes) { return x.reduce(bytes, DType::f32); };
}

/// A collective of one size.
struct Timed {
  Start start;
  double bytes;
  comm::Event operator()() const { return start(bytes); }
};

struct Together {
  double first = 0, second = 0, both = 0;  ///< seconds
};

/// Times two collectives alone and together, in turns: a machine whose speed changes from minute to minute
/// changes it for all three.
Together time_both(const Timed& a, const Timed& b, comm::World& world, int repeats) {
  std::vector<double> first, second, both;
  for (int i = 0; i < repeats; ++i) {
    world.barrier();
    first.push_back(seconds_of([&] { comm::sync(a()); }));
    second.push_back(seconds_of([&] { comm::sync(b()); }));
    both.push_back(seconds_of([&] {
      const comm::Event begun = a();
      comm::sync(b());
      comm::sync(begun);
    }));
  }
  Together t{least(first), least(second), least(both)};
  t.first = slowest(world, t.first);
  t.second = slowest(world, t.second);
  t.both = slowest(world, t.both);
  return t;
}

/// The share of its own speed at which each ran until the shorter one was done. The rest of the longer one
/// runs alone.
double speed_of_both(const Together& t) {
  const double shorter = std::min(t.first, t.second), longer = std::max(t.first, t.second);
  const double overlapped = t.both - (longer - shorter);
  return std::clamp(shorter / std::max(overlapped, 1e-12), 0.05, 1.0);
}

/// A row of collectives on one lane or more, of any length.
class Stream {
 public:
  Stream(std::vector<Start> lanes, double bytes) : lanes_(std::move(lanes)), bytes_(bytes) {}

  /// Starts this many rounds; a round has one collective of each lane.
  void start(int rounds) {
    events_.clear();
    for (int i = 0; i < rounds; ++i)
      for (const Start& lane : lanes_) events_.push_back(lane(bytes_));
  }
  /// How many bytes this many rounds have.
  double bytes(int rounds) const { return bytes_ * static_cast<double>(lanes_.size()) * rounds; }
  /// How many bytes a rank has sent so far: whole collectives, and half of those that are under way.
  double sent() const {
    const auto done =
        std::count_if(events_.begin(), events_.end(), [](const comm::Event& e) { return comm::done(e); });
    const auto under_way = std::min(std::ssize(lanes_), static_cast<std::ptrdiff_t>(events_.size()) - done);
    return bytes_ * (static_cast<double>(done) + static_cast<double>(under_way) / 2);
  }
  void finish() {
    for (const comm::Event& e : events_) comm::sync(e);
  }

 private:
  std::vector<Start> lanes_;
  double bytes_;
  std::vector<comm::Event> events_;
};

/// Seconds of one collective in a stream. It is as large as a unit's, because small ones cost more a byte;
/// yet several fit within the compute, so that they can be counted.
constexpr double piece = 25e-3;

/// Seconds in which a lane had a collective under way, on average over those that are measured.
using Busy = std::function<double()>;

/// How compute went with a stream of collectives beside it.
struct Beside {
  double seconds = 0;    ///< of the compute
  double sent = 0;       ///< bytes until its end
  double under_way = 0;  ///< seconds in which these were sent
};

Beside run_beside(Stream& stream, const Busy& busy, comm::World& world, int rounds,
                  const std::function<void()>& compute) {
  world.barrier();
  const double before = busy();
  stream.start(rounds);
  Beside b;
  b.seconds = seconds_of(compute);
  b.sent = stream.sent();
  stream.finish();
  // A stream that may have no more rounds can end before the compute.
  b.under_way = std::clamp(busy() - before, 1e-9, std::max(b.seconds, 1e-9));
  return b;
}

/// What is lost when kernels and collectives run side by side.
struct Losses {
  double speed = 1;              ///< speed of collectives, as a share of their speed alone
  double stolen_s_per_byte = 0;  ///< seconds that compute loses for each byte
};

/// The lanes that are measured, and what they send with nothing beside them.
struct Lanes {
  std::vector<Start> starts;
  Busy busy;
  double rate = 0;  ///< about how many bytes a second, over all of them
  double most = 0;  ///< the largest collective, in bytes
};

Losses measure_beside(const Lanes& lanes, comm::World& world, const std::function<void()>& compute,
                      double seconds) {
  const double first = slowest(world, seconds_of(compute));
  const auto [bytes, rounds] =
      rounds_beside(first, lanes.rate, static_cast<int>(lanes.starts.size()), lanes.most);
  Stream stream(lanes.starts, bytes);
  const int probe = 2 + rounds / 4;
  const int repeats = static_cast<int>(std::clamp(seconds / (4 * first), 5.0, 9.0));
  std::vector<double> lost, sent, speeds;
  for (int i = 0; i < repeats; ++i) {
    world.barrier();
    const double busy = seconds_of(compute);
    world.barrier();
    const double alone = seconds_of([&] {
      stream.start(probe);
      stream.finish();
    });
    const Beside b = run_beside(stream, lanes.busy, world, rounds, compute);
    lost.push_back(b.seconds - busy);
    sent.push_back(b.sent);
    speeds.push_back(b.sent / b.under_way * alone / stream.bytes(probe));
  }
  // Each run is compared with its neighbours in time. The shortest run would be one in which little was sent.
  const double stolen = typical(world, median(lost) / median(sent)), speed = typical(world, median(speeds));
  return {std::clamp(speed, 0.05, 1.0), std::max(0.0, stolen)};
}

/// Halves `bytes` until time_both() takes no more than `seconds` for its three times, or the size is small.
double affordable(Exchanges& x, comm::World& world, double bytes, double seconds) {
  for (;; bytes /= 2) {
    const Together once = time_both({gathers(x), bytes}, {reductions(x), bytes}, world, 1);
    if (bytes <= 1 << 20 || once.first + once.second + once.both <= seconds) return bytes;
  }
}

/// Bytes a second of a lane alone, at the size that takes `seconds`, or at the largest size up to `most`.
double rate_of(const Start& start, comm::World& world, double most, double seconds) {
  const double smallest = std::min(64.0 * (1 << 10), most);
  comm::sync(start(smallest));
  for (double bytes = smallest;; bytes *= 2) {
    std::vector<double> times;
    for (int i = 0; i < 3; ++i) {
      world.barrier();
      times.push_back(seconds_of([&] { comm::sync(start(bytes)); }));
    }
    const double once = slowest(world, least(times));
    if (once >= seconds || 2 * bytes > most) return bytes / once;
  }
}

/// The share of their speed that two collectives keep beside each other. Their sizes are such that they take
/// about as long: else most of the longer one would run alone.
double speed_beside(const Start& a, double rate_a, const Start& b, double rate_b, comm::World& world,
                    double seconds) {
  std::vector<double> speeds;
  for (const double part : {1.0, 0.5, 0.25})
    speeds.push_back(
        speed_of_both(time_both({a, rate_a * seconds * part}, {b, rate_b * seconds * part}, world, 5)));
  return median(speeds);
}

}  // namespace

Rounds rounds_beside(double seconds, double rate, int lanes, double most) {
  const double wanted = 2 * seconds * rate / lanes;
  double bytes = std::clamp(rate * piece, 64.0 * (1 << 10), 16.0 * (1 << 20));
  bytes = std::min(std::max(bytes, wanted / (most_rounds - 2)), most);
  const double rounds = std::min(std::ceil(wanted / bytes) + 2, static_cast<double>(most_rounds));
  return {bytes, static_cast<int>(rounds)};
}

machine::Sharing measure_sharing(Exchanges& x, comm::World& world, double bytes,
                                 const std::function<void()>& compute, double seconds) {
  machine::Sharing sharing;
  bytes = affordable(x, world, bytes, seconds / 20);
  std::vector<double> speeds, rates;
  for (const double size : {bytes, bytes / 2, bytes / 4}) {
    const Together t = time_both({gathers(x), size}, {reductions(x), size}, world, 5);
    speeds.push_back(speed_of_both(t));
    rates.push_back(2 * x.sent(ir::Op::all_gather, size, DType::f32) / t.both);
  }
  sharing.both_lanes = median(speeds);
  sharing.link_bytes_per_s = median(rates);
  const Lanes both{
      {gathers(x), reductions(x)}, [&x] { return x.busy_seconds(); }, sharing.link_bytes_per_s, x.most()};
  const Losses losses = measure_beside(both, world, compute, seconds / 2);
  sharing.beside_compute = losses.speed;
  sharing.stolen_s_per_byte = losses.stolen_s_per_byte;
  return sharing;
}

machine::ReplicaSharing measure_replica_sharing(ReplicaSums& sums, Exchanges* exchanges, comm::World& world,
                                                const std::function<void()>& compute, double seconds) {
  const Start sum = [&sums](double bytes) { return sums.start(bytes); };
  const double rate = rate_of(sum, world, sums.most(), piece);
  machine::ReplicaSharing sharing;
  if (exchanges != nullptr) {
    const Start gather = gathers(*exchanges);
    const double other = rate_of(gather, world, exchanges->most(), piece);
    // There are fifteen rounds of three times, each as long as both lanes leave it.
    const double longest = std::min({seconds / 100, sums.most() / rate, exchanges->most() / other});
    sharing.beside_lanes = speed_beside(sum, rate, gather, other, world, longest);
  }
  const Lanes one{{sum}, [&sums] { return sums.busy_seconds(); }, rate, sums.most()};
  const Losses losses = measure_beside(one, world, compute, seconds / 2);
  sharing.beside_compute = losses.speed;
  sharing.stolen_s_per_byte = losses.stolen_s_per_byte;
  return sharing;
}

}  // namespace weft::measure
