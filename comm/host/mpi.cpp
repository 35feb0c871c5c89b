// The MPI world. The main thread initialises and finalises MPI; in between one thread makes all MPI calls.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/check.hpp"
#include "base/log.hpp"
#include "comm/host/check_mpi.hpp"
#include "comm/host/host_channel.hpp"
#include "comm/host/mpi_transport.hpp"
#include "comm/host/team_memory.hpp"
#include "comm/launch.hpp"
#include "comm/world.hpp"

namespace weft::comm {
namespace {

/// Initialises and finalises MPI. It leaves MPI up when it was up before, and when an exception ends the run,
/// because MPI_Finalize would wait for ranks that are still working.
class MpiSession {
 public:
  MpiSession(int* argc, char*** argv) {
    int initialized = 0;
    CHECK_MPI(MPI_Initialized(&initialized));
    owned_ = initialized == 0;
    int provided = MPI_THREAD_SINGLE;
    if (owned_) {
      CHECK_MPI(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided));
    } else {
      CHECK_MPI(MPI_Query_thread(&provided));
    }
    WEFT_SYSTEM(provided >= MPI_THREAD_SERIALIZED,
                "the MPI library gives thread level {} (Weft talks to MPI from a thread of its own); use "
                "one built with "
                "thread support",
                provided);
    CHECK_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    detail::set_mpi_rank(rank);
  }
  ~MpiSession() {
    if (owned_ && std::uncaught_exceptions() == 0) MPI_Finalize();
  }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank = 0;
  int size = 1;

 private:
  bool owned_ = true;
};

// Lets the library push what it still buffers.
void nudge_mpi() {
  int found = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

MPI_Comm make_communicator(const std::vector<int>& ranks, int tag) {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  CHECK_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
  CHECK_MPI(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group));
  CHECK_MPI(MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &comm));
  CHECK_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  return comm;
}

class MpiWorld final : public World {
 public:
  MpiWorld(int* argc, char*** argv)
      : session_(argc, argv),
        engine_({detail::Engine::Drive::thread, nudge_mpi,
                 [this](const std::string& line, ExitCode code) { fail(line, code); }}) {
    connect();
  }
  ~MpiWorld() override { disconnect(); }

  int rank() const override { return session_.rank; }
  int size() const override { return session_.size; }
  [[noreturn]] void abort(int code) override { end_all_ranks(code); }
  std::unique_ptr<Window> share(const std::vector<int>& ranks, const WindowSizes& sizes) override {
    std::unique_ptr<Window> window;
    engine_.run([&] { window = make_window(ranks, sizes); });
    return window;
  }

 protected:
  std::unique_ptr<Channel> open_channel(const std::vector<int>& ranks, Lane lane, std::string name,
                                        const ChannelOptions& options) override {
    const auto me = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
    detail::HostChannel::Setup setup;
    setup.rank = static_cast<int>(me);
    setup.size = static_cast<int>(ranks.size());
    setup.lane = lane;
    setup.name = std::move(name);
    setup.chunk_bytes = options.chunk_bytes;
    setup.ranks = ranks;
    setup.host_of = host_numbers(ranks);
    engine_.run(
        [&] { setup.transport = std::make_unique<detail::MpiTransport>(make_communicator(ranks, 0)); });
    return std::make_unique<detail::HostChannel>(engine_, std::move(setup));
  }

 private:
  std::unique_ptr<Window> make_window(const std::vector<int>& ranks, const WindowSizes& sizes);
  [[noreturn]] void fail(const std::string& line, ExitCode code) {
    log::write_error(line);  // the line names the rank
    abort(static_cast<int>(code));
  }

  MpiSession session_;  // before the engine, so that MPI is finalised after its thread has ended
  detail::Engine engine_;
};

/// Whether all ranks of the communicator can share memory. Hosts are told apart by name, and names may lie.
bool is_one_node(MPI_Comm comm, int ranks) {
  MPI_Comm node = MPI_COMM_NULL;
  CHECK_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
  int here = 0;
  CHECK_MPI(MPI_Comm_size(node, &here));
  MPI_Comm_free(&node);
  return here == ranks;
}

/// What MPI's own messages may still take of /dev/shm for each rank of a host: Open MPI's segment
/// (btl_vader_segment_size; since version 5 btl_sm_segment_size, which is larger). It reserves none of it,
/// and dies by a signal (SIGBUS) in a send that finds no page.
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5
constexpr std::int64_t message_bytes = std::int64_t{16} << 20;
#else
constexpr std::int64_t message_bytes = std::int64_t{4} << 20;
#endif

std::unique_ptr<Window> MpiWorld::make_window(const std::vector<int>& ranks, const WindowSizes& sizes) {
  constexpr int tag = 1;
  const auto members = static_cast<int>(ranks.size());
  const auto me = static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank()) - ranks.begin());
  MPI_Comm comm = make_communicator(ranks, tag);
  detail::HostTalk talk;
  talk.from_first = [comm](std::string text) {
    text.resize(256);
    CHECK_MPI(MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, comm));
    return text.substr(0, text.find('\0'));
  };
  talk.all = [comm](bool good) {
    int all = good ? 1 : 0;
    CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, comm));
    return all != 0;
  };
  std::unique_ptr<Window> window;
  const std::int64_t spare = message_bytes * std::count(hosts().begin(), hosts().end(), host());
  if (is_one_node(comm, members)) window = detail::make_window(ranks, me, sizes, spare, talk);
  MPI_Comm_free(&comm);
  return window;
}

}  // namespace

std::unique_ptr<World> make_mpi_world(int* argc, char*** argv) {
  // The launcher's variables are read first: MPI_Init adds some of its own.
  const detail::Launch launch = detail::read_launch([](const char* name) { return std::getenv(name); });
  auto world = std::make_unique<MpiWorld>(argc, argv);
  log::set_rank(world->rank(), world->size());
  detail::check_slurm_tasks(launch, world->size());
  return world;
}

void end_all_ranks(int code) {
  // Not all files: one whose storage does not answer would hold this up (log::record_errors).
  std::fflush(stdout);
  std::fflush(stderr);
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized != 0 && finalized == 0) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace weft::comm
