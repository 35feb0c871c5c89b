// Measures how well a rank with one core hides collectives under compute, by who makes them progress:
//
// - channel: Weft's channels, own exchanges of pieces, driven by a thread that sleeps between looks
// - thread-nonblocking: MPI_Iallgather and MPI_Ireduce_scatter_block, tested by a thread that sleeps
// - thread-blocking: MPI_Allgather and MPI_Reduce_scatter_block, each on a thread of its own
// - between: the nonblocking two, tested once by the main thread after each kernel
// - between-exchanges: Weft's channels without their thread, polled by the main thread after each kernel
// - none: the blocking two on the main thread, then compute
//
//   perf/two_hosts.sh --measure-link 1gbit -- build/cpu/perf/bench_overlap [OPTION]... [SCHEME]...
//
// Options: --mib (8), --kernel-ms (5), --ratio (1), --pairs (5), --pause-us (50) between tests. A round
// begins an all-gather and a reduce-scatter (fp32, sum), in each of which a rank sends --mib MiB, runs K
// kernels, and waits for both. K makes compute --ratio times as long as the first scheme's collectives alone.
// A turn times rounds of compute alone, then of collectives alone, then of both together: about a second each
// with the first scheme, 50 rounds at most. Schemes alternate, with --pairs turns each. Times are those of a
// round on the slowest rank. CPU is what the process takes together beyond compute; hidden is (compute +
// alone - together) / min(compute, alone). Every round checks the data that arrive.
#include <fmt/core.h>
#include <mpi.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/median.hpp"
#include "comm/world.hpp"
#include "cpu_time.hpp"
#include "overlap_schemes.hpp"

namespace weft::overlap {
namespace {

struct Options {
  double mib = 8;
  double kernel_ms = 5;
  double ratio = 1;
  int pause_us = 50;
  int pairs = 5;
  std::vector<std::string> schemes;
};

/// A fixed number of multiply-adds over an array that stays in the core's caches.
class Kernel {
 public:
  explicit Kernel(double seconds) {
    constexpr int trial = 100;
    double fastest = 1;  // other work on the machine only adds to a time
    for (int i = 0; i < 20; ++i) {
      const double start = seconds_now();
      run(trial);
      fastest = std::min(fastest, (seconds_now() - start) / trial);
    }
    MPI_Allreduce(MPI_IN_PLACE, &fastest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    passes_ = std::max(1, static_cast<int>(seconds / fastest));
  }
  void run() { run(passes_); }

 private:
  void run(int passes) {
    for (int pass = 0; pass < passes; ++pass)
      for (float& x : array_) x = x * 0.999F + 0.5F;
  }
  std::vector<float> array_ = std::vector<float>(16 << 10, 1.0F);
  int passes_ = 0;
};

/// The times of a round on the slowest rank.
struct Times {
  double seconds = 0;
  double cpu = 0;
};

/// The columns of a scheme, with a number for each turn: seconds of a round, and the hidden share.
struct Row {
  std::vector<double> compute, alone, together, cpu, hidden;
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : job_(options.mib, options.pause_us), kernel_(1e-3 * options.kernel_ms) {
    for (const Candidate& c : candidates()) {
      const auto& wanted = options.schemes;
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), c.name) != wanted.end())
        chosen_.push_back(c);
    }
    const Scheme first = chosen_[0].make(job_);
    round(chosen_[0], first, 0);  // this warms up
    const double alone = time(3, [&] { round(chosen_[0], first, 0); }).seconds;
    kernels_ = std::max(1, static_cast<int>(std::lround(1e3 * options.ratio * alone / options.kernel_ms)));
    rounds_ = std::clamp(static_cast<int>(1 / std::max(alone, 1e-3 * options.kernel_ms * kernels_)), 2, 50);
    if (job_.rank > 0) return;
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    fmt::print("{} ranks on {} core(s) each; two collectives of {:.1f} MB sent, {} kernels of {} ms\n",
               job_.size, CPU_COUNT(&cpus), 1e-6 * sent_bytes() / 2, kernels_, options.kernel_ms);
    fmt::print("(compute: {} of {:.1f} ms, {} alone); turns of {} rounds\n", options.ratio, 1e3 * alone,
               chosen_[0].name, rounds_);
    if (const char* link = std::getenv("WEFT_LINK_BYTES_PER_S"))
      fmt::print("the link: {:.1f} MB/s each way, {:.1f} ms a round\n", 1e-6 * std::strtod(link, nullptr),
                 1e3 * sent_bytes() / std::strtod(link, nullptr));
  }

  void run(int turns) {
    std::vector<Row> rows(chosen_.size());
    for (int t = 0; t < turns; ++t)
      for (std::size_t c = 0; c < chosen_.size(); ++c) turn(chosen_[c], rows[c]);
    if (job_.rank > 0) return;
    fmt::print("{:19s} {:>8s} {:>8s} {:>8s} {:>18s} {:>8s} {:>7s} {:>16s} {:>11s} {:>9s}\n",
               "medians, ms a round", "compute", "alone", "together", "(min .. max)", "CPU", "hidden",
               "(min .. max)", "MB/s: alone", "together");
    for (std::size_t c = 0; c < chosen_.size(); ++c) print(chosen_[c].name, rows[c]);
  }

 private:
  double sent_bytes() const { return 2.0 * 4 * job_.count * (job_.size - 1); }

  static Times time(int rounds, const std::function<void()>& round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = seconds_now(), cpu = cpu_seconds();
    for (int i = 0; i < rounds; ++i) round();
    std::array<double, 2> slowest{(seconds_now() - start) / rounds, (cpu_seconds() - cpu) / rounds};
    MPI_Allreduce(MPI_IN_PLACE, slowest.data(), 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return {slowest[0], slowest[1]};
  }

  void round(const Candidate& candidate, const Scheme& scheme, int kernels) {
    job_.spoil();
    scheme.begin();
    for (int k = 0; k < kernels; ++k) {
      kernel_.run();
      scheme.after_kernel();
    }
    scheme.wait();
    job_.check(candidate.name);
  }

  void turn(const Candidate& candidate, Row& row) {
    const Times compute = time(rounds_, [&] {
      for (int k = 0; k < kernels_; ++k) kernel_.run();
    });
    const Scheme scheme = candidate.make(job_);
    round(candidate, scheme, 0);  // this connects
    const double alone = time(rounds_, [&] { round(candidate, scheme, 0); }).seconds;
    const Times together = time(rounds_, [&] { round(candidate, scheme, kernels_); });
    row.compute.push_back(compute.seconds);
    row.alone.push_back(alone);
    row.together.push_back(together.seconds);
    row.cpu.push_back(together.cpu - compute.cpu);
    row.hidden.push_back((compute.seconds + alone - together.seconds) / std::min(compute.seconds, alone));
  }

  static std::string spread(const std::vector<double>& values, double unit, int digits) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return fmt::format("({:.{}f} .. {:.{}f})", unit * *least, digits, unit * *most, digits);
  }
  void print(const char* name, const Row& row) const {
    const double alone = median(row.alone), together = median(row.together);
    fmt::print("{:19s} {:8.1f} {:8.1f} {:8.1f} {:>18s} {:8.1f} {:7.2f} {:>16s} {:11.1f} {:9.1f}\n", name,
               1e3 * median(row.compute), 1e3 * alone, 1e3 * together, spread(row.together, 1e3, 1),
               1e3 * median(row.cpu), median(row.hidden), spread(row.hidden, 1, 2),
               1e-6 * sent_bytes() / alone, 1e-6 * sent_bytes() / together);
  }

  Job job_;
  Kernel kernel_;
  std::vector<Candidate> chosen_;
  int kernels_ = 0;  // kernels in a round
  int rounds_ = 0;   // rounds in a turn
};

/// What is wrong with the arguments; empty when nothing is.
std::string parse(int argc, char** argv, Options& o) {
  CLI::App app;
  app.set_help_flag();
  app.add_option("--mib", o.mib)->check(CLI::Range(0.01, 256.0));
  app.add_option("--kernel-ms", o.kernel_ms)->check(CLI::Range(0.01, 1000.0));
  app.add_option("--ratio", o.ratio)->check(CLI::Range(0.01, 100.0));
  app.add_option("--pause-us", o.pause_us)->check(CLI::Range(1, 100000));
  app.add_option("--pairs", o.pairs)->check(CLI::Range(1, 1000));
  std::vector<std::string> names;
  for (const Candidate& c : candidates()) names.emplace_back(c.name);
  app.add_option("SCHEME", o.schemes)->check(CLI::IsMember(names));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return e.what();
  }
  return "";
}

}  // namespace
}  // namespace weft::overlap

int main(int argc, char** argv) {
  int thread_level = MPI_THREAD_SINGLE, rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &thread_level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  weft::overlap::Options options;
  std::string wrong = weft::overlap::parse(argc, argv, options);
  if (thread_level < MPI_THREAD_MULTIPLE) wrong = "this MPI lets only one thread call it at a time";
  if (!wrong.empty()) {  // all ranks are alike: one line is enough, and nobody is left waiting
    if (rank == 0) fmt::print(stderr, "bench_overlap: {}; see the head of perf/bench_overlap.cpp\n", wrong);
    MPI_Finalize();
    return 2;
  }
  try {
    weft::overlap::Bench(options).run(options.pairs);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_overlap: {}\n", e.what());
    weft::comm::end_all_ranks(2);
  }
  MPI_Finalize();
  return 0;
}
