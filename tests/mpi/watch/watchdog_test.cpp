// Tests the watchdog on ranks that wait for one another in vain until it says so. Then they go on, so that
// the program ends.
#include "watch/watchdog.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "io/storage_wait.hpp"
#include "support/mpi_environment.hpp"
#include "support/temporary_directory.hpp"
#include "watch/diagnose.hpp"

namespace weft::test {
namespace {

using comm::Channel;
using watch::Watchdog;

std::unique_ptr<Channel> open(const char* name) {
  std::vector<int> ranks(static_cast<std::size_t>(world().size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return world().open(ranks, Lane::gather, name);
}

int last() {
  return world().size() - 1;
}

/// A watchdog that does not end the run, in a directory that all ranks share.
class Watched {
 public:
  explicit Watched(double timeout_s)
      : dir_(world().broadcast(directory_.path(), 0)),
        watchdog_(world(), {dir_, timeout_s, timeout_s, [this](int code) { code_ = code; }}) {
    watchdog_.look_out();
  }

  /// The directory is in use until all ranks come here.
  ~Watched() { world().barrier(); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  /// Waits for the watchdog's end of the run; returns its exit code, 0 when it has not come.
  int code(double seconds) {
    for (int i = 0; code_ == 0 && i < 100 * seconds; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return code_;
  }
  watch::Diagnosis diagnosis() const {
    return watch::diagnose(watch::read_records(watch::newest_records(dir_)), world().hosts());
  }
  const std::string& records() const { return watchdog_.dir(); }
  std::string verdict() const { return read_file(records() + "/verdict.txt"); }

 private:
  TemporaryDirectory directory_;
  std::string dir_;
  std::atomic<int> code_{0};
  Watchdog watchdog_;
};

TEST(Watchdog, NamesTheRankThatLeftACollectiveOut) {
  const auto channel = open("gather.data");
  Watched watched(0.5);
  const auto size = static_cast<std::size_t>(world().size());
  std::vector<float> mine(1000), all(1000 * size);
  const auto gather = [&] { return channel->all_gather({}, mine.data(), all.data(), 1000, DType::f32); };
  comm::sync(gather());
  world().recorder().set_activity("step", 12);
  channel->set_label("forward head");
  comm::Event event;
  if (world().rank() != last()) event = gather();
  EXPECT_EQ(watched.code(20), static_cast<int>(ExitCode::hang));
  const watch::Diagnosis d = watched.diagnosis();
  EXPECT_EQ(d.first, std::vector{last()});
  ASSERT_EQ(d.waits.size(), 1U);
  EXPECT_EQ(d.waits[0].what, "gather.data #2 (all_gather, forward head, 3.91 KiB)");
  EXPECT_EQ(d.waits[0].missing, std::vector{last()});
  EXPECT_TRUE(d.silent.empty());
  EXPECT_NE(watched.verdict().find("gather.data #2"), std::string::npos) << watched.verdict();
  if (world().rank() == last()) event = gather();
  comm::sync(event);
}

// The last rank waits in one channel, and the others in another.
TEST(Watchdog, FindsRanksThatWaitForEachOther) {
  const auto one = open("one"), two = open("two");
  Watched watched(0.5);
  Channel& first = world().rank() == last() ? *one : *two;
  Channel& second = world().rank() == last() ? *two : *one;
  const comm::Event a = first.barrier({});
  EXPECT_EQ(watched.code(20), static_cast<int>(ExitCode::hang));
  const watch::Diagnosis d = watched.diagnosis();
  EXPECT_EQ(d.waits.size(), 2U);
  EXPECT_EQ(d.first.size(), 1U);
  EXPECT_NE(d.verdict.find("others wait for it, and it waits for"), std::string::npos) << d.verdict;
  const comm::Event b = second.barrier({});
  comm::sync(a);
  comm::sync(b);
}

// The ranks are the stages of a pipe. Rank 0 computes and does not end. It has asked for what rank 1 will
// send back, so each waits for the other by its channels alone.
TEST(Watchdog, NamesTheStageThatTheOthersWaitFor) {
  if (world().size() == 1) GTEST_SKIP() << "needs several ranks";
  const int rank = world().rank(), size = world().size();
  std::unique_ptr<Channel> before, behind, back;
  for (int place = 0; place + 1 < size; ++place) {
    if (rank != place && rank != place + 1) continue;
    const std::string name = "pipe." + std::to_string(place) + "-" + std::to_string(place + 1);
    (rank == place ? behind : before) =
        world().open({place, place + 1}, rank == place ? Lane::to_next : Lane::from_previous, name);
    if (place == 0) back = world().open({0, 1}, Lane::from_next, "back");
  }
  Watched watched(0.5);
  int x = 0, gradient = 0;
  comm::Event asked;
  if (rank == 0) asked = back->recv({}, &gradient, sizeof gradient, 1);
  comm::Event received;
  std::thread host;  // waits as the executor does, while this thread looks at the watchdog
  if (before) {
    before->set_label("forward x");
    received = before->recv({}, &x, sizeof x, 0);
    host = std::thread([&] { comm::sync(received); });
  }
  EXPECT_EQ(watched.code(20), static_cast<int>(ExitCode::hang));
  const watch::Diagnosis d = watched.diagnosis();
  EXPECT_EQ(d.first, std::vector{0}) << d.verdict;
  EXPECT_NE(d.verdict.find("waits for no rank"), std::string::npos) << d.verdict;
  EXPECT_EQ(d.waits.size(), static_cast<std::size_t>(size - 1));
  for (const watch::WaitingCall& wait : d.waits) {
    const int stage = wait.waiting.front();
    EXPECT_EQ(wait.missing, std::vector{stage - 1});
    EXPECT_EQ(wait.what, "pipe." + std::to_string(stage - 1) + "-" + std::to_string(stage) +
                             " (recv from rank " + std::to_string(stage - 1) + ", forward x, 4 B)");
  }
  if (rank == 0) x = 7;
  if (host.joinable()) host.join();
  if (behind) comm::sync(behind->send({}, &x, sizeof x, 1));
  EXPECT_EQ(x, 7);
  if (rank == 1) comm::sync(back->send({}, &x, sizeof x, 0));
  comm::sync(asked);
}

// This is the case of a stopped rank that is woken by the end of the others: what it does now would hide what
// it did then.
TEST(Watchdog, LeavesAVerdictAndItsRecordsAlone) {
  const auto channel = open("late");
  Watched watched(0.5);
  if (world().rank() == 0) {
    std::filesystem::create_directories(watched.records());
    std::ofstream(watched.records() + "/verdict.txt") << "rank 1";
  }
  EXPECT_EQ(watched.code(20), static_cast<int>(ExitCode::hang));
  EXPECT_TRUE(watch::read_records(watched.records()).empty());
  EXPECT_EQ(watched.verdict(), "rank 1");
}

/// All ranks are in an fsync, and none is in a collective. This holds on one rank, too.
TEST(Watchdog, NamesTheFileOnStorageThatDoesNotAnswer) {
  Watched watched(2);
  {
    const io::StorageWait oldest("read", "somewhere");
    const io::StorageWait wait("fsync", "checkpoints/step-00000040.tmp/shard-00003.h5");
    ASSERT_EQ(watched.code(10), 76);
  }
  world().barrier();
  const watch::Diagnosis d = watched.diagnosis();
  EXPECT_EQ(d.first.size(), static_cast<std::size_t>(world().size())) << d.verdict;
  EXPECT_NE(d.verdict.find("its storage does not answer, read of somewhere for"), std::string::npos)
      << d.verdict;
}

TEST(Watchdog, ShortWaitsForStorageAreNoHang) {
  Watched watched(0.4);
  for (int i = 0; i < 40; ++i) {
    const io::StorageWait wait("fsync", "shard");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(watched.code(0.1), 0);
}

/// A batch system stops a job's processes, and lets them go on much later. What was under way has its full
/// time again then. Each rank is a run of its own here.
TEST(Watchdog, TimeInWhichTheJobWasSuspendedIsNoHang) {
  const auto alone = comm::make_self_world();
  const TemporaryDirectory directory;
  constexpr double timeout_s = 2;
  std::atomic<int> code{0};
  const Watchdog watchdog(*alone,
                          {directory.path(), timeout_s, timeout_s, [&code](int given) { code = given; }});
  const auto record = alone->open_record("plans");
  const comm::RecordedBlock call(record.get(), {.kind = "run"});
  const io::StorageWait storage("fsync", "shard");
  const pid_t stopped = ::getpid(), batch_system = ::fork();
  if (batch_system == 0) {
    ::kill(stopped, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(2400));  // more than the timeout
    ::kill(stopped, SIGCONT);
    ::_exit(0);
  }
  ASSERT_GT(batch_system, 0);
  ASSERT_EQ(::waitpid(batch_system, nullptr, 0), batch_system);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // five times the watchdog's period
  EXPECT_FALSE(std::filesystem::exists(watchdog.dir())) << "it has left records, before it ends the run";
  EXPECT_EQ(code, 0);
}

/// A world in which a library of channels has failed.
class FailingWorld final : public comm::World {
 public:
  FailingWorld() { connect_through(world()); }
  int rank() const override { return world().rank(); }
  int size() const override { return world().size(); }
  std::string failure() override { return "channel gather.data has failed"; }
  [[noreturn]] void abort(int code) override { comm::end_all_ranks(code); }

 protected:
  std::unique_ptr<Channel> open_channel(const std::vector<int>& ranks, Lane lane, std::string name,
                                        const comm::ChannelOptions& options) override {
    return world().open(ranks, lane, std::move(name), options);
  }
};

/// Nothing has a limit here.
TEST(Watchdog, AFailureEndsARunThatWaits) {
  FailingWorld failing;
  std::atomic<int> code{0};
  const Watchdog watchdog(failing, {"none", 0, 0, [&code](int given) { code = given; }});
  const auto wait = [&code](double seconds) {
    for (int i = 0; code == 0 && i < 100 * seconds; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return code.load();
  };
  EXPECT_EQ(wait(3.5), 0) << "no call was under way";
  const auto record = failing.open_record("plans");
  const comm::RecordedBlock block(record.get(), {.kind = "run"});
  testing::internal::CaptureStderr();
  EXPECT_EQ(wait(20), static_cast<int>(ExitCode::comm_failure));
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find(": channel gather.data has failed"), std::string::npos) << told;
}

/// A rank that ends meanwhile, because another one has ended the run, says nothing.
TEST(Watchdog, LeavesAFailureToTheRankThatCausedIt) {
  FailingWorld failing;
  const auto record = failing.open_record("plans");
  const comm::RecordedBlock block(record.get(), {.kind = "run"});
  std::atomic<int> code{0};
  {
    const Watchdog watchdog(failing, {"none", 0, 0, [&code](int given) { code = given; }});
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  }
  EXPECT_EQ(code, 0);
}

// Ranks wait no longer than the timeout for a slow rank, and what nobody waits for may take as long as it
// likes.
TEST(Watchdog, LeavesSlowRanksAlone) {
  const auto channel = open("slow");
  Watched watched(1.5);
  for (int i = 0; i < 3; ++i) {
    if (world().rank() == last()) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    comm::sync(channel->barrier({}));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1800));
  EXPECT_EQ(watched.code(0), 0);
}

}  // namespace
}  // namespace weft::test
