#include "overlap_schemes.hpp"

#include <sys/prctl.h>

#include <array>
#include <atomic>
#include <ctime>
#include <memory>
#include <string>
#include <thread>

#include "comm/host/engine.hpp"
#include "comm/host/host_channel.hpp"
#include "comm/host/mpi_transport.hpp"
#include "comm/world.hpp"

namespace weft::overlap {
namespace {

void gather_blocking(Job& j) {
  MPI_Allgather(j.own.data(), j.count, MPI_FLOAT, j.gathered.data(), j.count, MPI_FLOAT, j.gather);
}
void reduce_blocking(Job& j) {
  MPI_Reduce_scatter_block(j.gradient.data(), j.sum.data(), j.count, MPI_FLOAT, MPI_SUM, j.reduce);
}

struct Nonblocking {
  void begin(Job& j) {
    MPI_Iallgather(j.own.data(), j.count, MPI_FLOAT, j.gathered.data(), j.count, MPI_FLOAT, j.gather,
                   &requests[0]);
    MPI_Ireduce_scatter_block(j.gradient.data(), j.sum.data(), j.count, MPI_FLOAT, MPI_SUM, j.reduce,
                              &requests[1]);
  }
  bool test() {
    int done = 0;
    MPI_Testall(2, requests.data(), &done, MPI_STATUSES_IGNORE);
    return done != 0;
  }
  void wait() { MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE); }

  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

/// Weft's two lanes, and what drives them: a world with its thread, or an engine that its caller polls.
struct Channels {
  void begin(Job& j) {
    gathered = gather->all_gather({}, j.own.data(), j.gathered.data(), j.count, DType::f32);
    scratch.resize(reduce->reduce_scatter_scratch_bytes(j.count, DType::f32, ReduceOrder::canonical));
    comm::ReduceScatter what;
    what.in = j.gradient.data();
    what.out = j.sum.data();
    what.scratch = scratch.data();
    what.count = j.count;
    summed = reduce->reduce_scatter({}, what);
  }
  void wait() {
    comm::sync(gathered);
    comm::sync(summed);
  }

  std::unique_ptr<comm::World> world;
  std::unique_ptr<comm::detail::Engine> engine;
  std::unique_ptr<comm::Channel> gather, reduce;  // destroyed before the two above
  comm::Event gathered, summed;
  std::vector<std::byte> scratch;
};

/// A thread that does its work once for each begin().
class Worker {
 public:
  explicit Worker(std::function<void()> work) : thread_([this, work = std::move(work)] { loop(work); }) {}
  ~Worker() {
    begun_ = -1;
    begun_.notify_one();
    thread_.join();
  }
  void begin() {
    ++begun_;
    begun_.notify_one();
  }
  void wait() {
    for (int done = done_; done != begun_; done = done_) done_.wait(done);
  }

 private:
  void loop(const std::function<void()>& work) {
    prctl(PR_SET_TIMERSLACK, 1000);  // the default slack would double a short sleep
    for (;;) {
      begun_.wait(done_);
      if (begun_ < 0) return;
      work();
      ++done_;
      done_.notify_one();
    }
  }

  std::atomic<int> begun_{0}, done_{0};
  std::thread thread_;  // it starts when the counters above exist
};

Scheme channel(Job& job) {
  const auto weft = std::make_shared<Channels>();
  weft->world = comm::make_mpi_world(nullptr, nullptr);
  std::vector<int> everybody;
  for (int r = 0; r < job.size; ++r) everybody.push_back(r);
  weft->gather = weft->world->open(everybody, Lane::gather, "gather");
  weft->reduce = weft->world->open(everybody, Lane::reduce, "reduce");
  return {[&job, weft] { weft->begin(job); }, [] {}, [weft] { weft->wait(); }};
}

Scheme between_exchanges(Job& job) {
  const auto weft = std::make_shared<Channels>();
  comm::detail::Engine::Options driven;
  driven.drive = comm::detail::Engine::Drive::caller;
  driven.failed = [](const std::string& line, ExitCode code) {
    fmt::print(stderr, "bench_overlap: {}\n", line);
    comm::end_all_ranks(static_cast<int>(code));
  };
  weft->engine = std::make_unique<comm::detail::Engine>(driven);
  const auto open = [&](MPI_Comm original, Lane lane) {
    comm::detail::HostChannel::Setup setup;
    setup.rank = job.rank;
    setup.size = job.size;
    setup.lane = lane;
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(original, &copy);
    setup.transport = std::make_unique<comm::detail::MpiTransport>(copy);
    return std::make_unique<comm::detail::HostChannel>(*weft->engine, std::move(setup));
  };
  weft->gather = open(job.gather, Lane::gather);
  weft->reduce = open(job.reduce, Lane::reduce);
  const auto poll = [weft] {
    while (weft->engine->poll()) {
    }
  };
  return {[&job, weft] { weft->begin(job); }, poll, [weft] { weft->wait(); }};
}

Scheme thread_nonblocking(Job& job) {
  const auto worker = std::make_shared<Worker>([&job] {
    const timespec pause{0, 1000L * job.pause_us};
    Nonblocking mpi;
    mpi.begin(job);
    while (!mpi.test()) nanosleep(&pause, nullptr);
  });
  return {[worker] { worker->begin(); }, [] {}, [worker] { worker->wait(); }};
}

Scheme thread_blocking(Job& job) {
  const auto gather = std::make_shared<Worker>([&job] { gather_blocking(job); });
  const auto reduce = std::make_shared<Worker>([&job] { reduce_blocking(job); });
  const auto begin = [=] {
    gather->begin();
    reduce->begin();
  };
  const auto wait = [=] {
    gather->wait();
    reduce->wait();
  };
  return {begin, [] {}, wait};
}

Scheme between(Job& job) {
  const auto mpi = std::make_shared<Nonblocking>();
  return {[&job, mpi] { mpi->begin(job); }, [mpi] { mpi->test(); }, [mpi] { mpi->wait(); }};
}

Scheme none(Job& job) {
  const auto both = [&job] {
    gather_blocking(job);
    reduce_blocking(job);
  };
  return {both, [] {}, [] {}};
}

}  // namespace

std::span<const Candidate> candidates() {
  static constexpr std::array<Candidate, 6> all{{{"channel", channel},
                                                 {"thread-nonblocking", thread_nonblocking},
                                                 {"thread-blocking", thread_blocking},
                                                 {"between", between},
                                                 {"between-exchanges", between_exchanges},
                                                 {"none", none}}};
  return all;
}

}  // namespace weft::overlap
