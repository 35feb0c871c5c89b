// Measures what the host exchange gets out of the link: all_gather on the gather lane, reduce_scatter on the
// reduce lane, and both lanes at once, in MB/s that every rank sends (and receives).
//
//   perf/two_hosts.sh --measure-link 1gbit -- build/cpu/perf/bench_comm [MiB a rank sends]...
//
// Where all ranks are on one host, the two are measured in its shared memory as well, as teams make them:
// nothing is sent there, and MB/s are of the bytes that messages would have sent.
//
// "one" waits for each operation before it submits the next; "queued" submits them all, as a plan does. Times
// are the slowest rank's, and CPU seconds are rank 0's while "queued". "of link" is the share of
// WEFT_LINK_BYTES_PER_S, which two_hosts.sh sets.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "comm/world.hpp"
#include "cpu_time.hpp"

namespace weft {
namespace {

constexpr double seconds_a_row = 0.7;

/// The buffers for one size, and the two operations on them. What other ranks read stands in `input`, which
/// has input_bytes().
class Load {
 public:
  static std::int64_t elements(const comm::World& world, std::int64_t sent_bytes) {
    return sent_bytes / 4 / (world.size() - 1);
  }
  static std::int64_t input_bytes(const comm::World& world, std::int64_t sent_bytes) {
    return 4 * elements(world, sent_bytes) * world.size();
  }
  Load(comm::World& world, comm::Channel& gather, comm::Channel& reduce, std::int64_t sent_bytes,
       std::byte* input)
      : gather_(gather),
        reduce_(reduce),
        count_(elements(world, sent_bytes)),
        input_(reinterpret_cast<float*>(input)) {
    const std::size_t all = static_cast<std::size_t>(count_ * world.size());
    std::fill_n(input_, all, 1.0F);
    gathered_.resize(all + half_a_page);
    sum_.resize(static_cast<std::size_t>(count_));
    scratch_.resize(reduce.reduce_scatter_scratch_bytes(count_, DType::f32, ReduceOrder::canonical));
  }
  comm::Event all_gather() {
    return gather_.all_gather({}, input_, gathered_.data() + half_a_page, count_, DType::f32);
  }
  comm::Event reduce_scatter() {
    comm::ReduceScatter what;
    what.in = input_;
    what.out = sum_.data();
    what.scratch = scratch_.data();
    what.count = count_;
    return reduce_.reduce_scatter({}, what);
  }

 private:
  /// In elements. A copy runs at half its speed where it reads and writes at the same places of two pages, as
  /// it would with buffers that both begin with a page. An arena's buffers do not.
  static constexpr std::int64_t half_a_page = 512;

  comm::Channel& gather_;
  comm::Channel& reduce_;
  std::int64_t count_;
  float* input_;
  std::vector<float> gathered_, sum_;
  std::vector<std::byte> scratch_;
};

/// Submits one operation on each lane that is measured.
using Submit = std::function<std::vector<comm::Event>()>;

double slowest_seconds(comm::World& world, int repeats, bool queued, const Submit& submit) {
  world.barrier();
  const double start = seconds_now();
  std::vector<comm::Event> last;
  for (int i = 0; i < repeats; ++i) {
    last = submit();
    if (!queued) std::for_each(last.begin(), last.end(), [](const comm::Event& e) { comm::sync(e); });
  }
  std::for_each(last.begin(), last.end(), [](const comm::Event& e) { comm::sync(e); });
  double seconds = seconds_now() - start;
  world.all_reduce_max(std::span(&seconds, 1));
  return seconds;
}

void measure(comm::World& world, const std::string& name, double bytes, double link, const Submit& submit) {
  const double once = slowest_seconds(world, 2, false, submit) / 2;  // this warms up, too
  const int repeats = static_cast<int>(std::clamp(seconds_a_row / once, 3.0, 2000.0));
  const double one = bytes * repeats / slowest_seconds(world, repeats, false, submit);
  const double cpu = cpu_seconds();
  const double queued = bytes * repeats / slowest_seconds(world, repeats, true, submit);
  const double cpu_a_gb = (cpu_seconds() - cpu) / (bytes * repeats * 1e-9);
  if (world.rank() > 0) return;
  fmt::print("{:32s} {:10.2f} {:10.1f} {:10.1f} {:10.2f}", name, bytes / (1 << 20), one * 1e-6, queued * 1e-6,
             cpu_a_gb);
  fmt::print("{}\n", link > 0 ? fmt::format(" {:9.0f} %", 100 * queued / link) : "");
  std::fflush(stdout);
}

void run(comm::World& world, const std::vector<double>& mebibytes) {
  WEFT_VALIDATE(world.size() > 1, "one rank exchanges nothing; start at least two");
  std::vector<int> everybody;
  for (int r = 0; r < world.size(); ++r) everybody.push_back(r);
  const auto gather = world.open(everybody, Lane::gather, "gather");
  const auto reduce = world.open(everybody, Lane::reduce, "reduce");
  const char* text = std::getenv("WEFT_LINK_BYTES_PER_S");
  const double link = text == nullptr ? 0 : std::strtod(text, nullptr);
  if (world.rank() == 0) {
    if (link > 0) fmt::print("{} ranks, a link of {:.1f} MB/s each way\n", world.size(), link * 1e-6);
    fmt::print("{:32s} {:>10s} {:>10s} {:>10s} {:>10s} {:>11s}\n", "MB/s sent by a rank", "MiB", "one",
               "queued", "CPU s/GB", link > 0 ? "of link" : "");
  }
  for (const double size : mebibytes) {
    const double bytes = size * (1 << 20);
    const auto sent = static_cast<std::int64_t>(bytes);
    const std::int64_t input_bytes = Load::input_bytes(world, sent);
    std::vector<std::byte> input(static_cast<std::size_t>(input_bytes));
    Load load(world, *gather, *reduce, sent, input.data());
    measure(world, "all_gather", bytes, link, [&] { return std::vector{load.all_gather()}; });
    measure(world, "reduce_scatter", bytes, link, [&] { return std::vector{load.reduce_scatter()}; });
    measure(world, "both lanes", 2 * bytes, link, [&] {
      return std::vector{load.all_gather(), load.reduce_scatter()};
    });
    if (world.team(everybody) != everybody) continue;
    const auto window = world.share(everybody, {input_bytes, input_bytes, 0});
    if (!window) continue;
    const auto shared = world.open(everybody, Lane::tensor, "shared");
    shared->share(*window, comm::SharedGathers::from_parts);
    Load near(world, *shared, *shared, sent, window->own());
    measure(world, "all_gather, shared memory", bytes, 0, [&] { return std::vector{near.all_gather()}; });
    measure(world, "reduce_scatter, shared memory", bytes, 0,
            [&] { return std::vector{near.reduce_scatter()}; });
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  try {
    const auto world = weft::comm::make_world(&argc, &argv);
    std::vector<double> sizes;
    for (int i = 1; i < argc; ++i) sizes.push_back(std::strtod(argv[i], nullptr));
    if (sizes.empty()) sizes = {1, 8, 64};
    for (const double size : sizes)
      WEFT_VALIDATE(size > 0, "a size is a number of MiB above 0, for example 8");
    weft::run(*world, sizes);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_comm: {}\n", e.what());
    weft::comm::end_all_ranks(2);
  }
  return 0;
}
