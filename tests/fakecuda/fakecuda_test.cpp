// Tests of the fake device itself: what a device would punish is punished here.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <nccl_device.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/nccl/stream_graph.hpp"
#include "fakecuda/device.hpp"
#include "fakecuda/kokkos.hpp"
#include "fakecuda/peers.hpp"
#include "support/kokkos_environment.hpp"

namespace weft::test {
namespace {

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  return stream;
}

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDefault), cudaSuccess);
  return event;
}

void put(cudaStream_t stream, std::vector<int>& list, int number) {
  EXPECT_EQ(fakecuda::enqueue_call(stream, "a number", [&list, number] { list.push_back(number); }),
            cudaSuccess);
}

class FakeCuda : public ::testing::Test {
 protected:
  ~FakeCuda() override {
    cudaDeviceSynchronize();
    cudaStreamDestroy(a_);
    cudaStreamDestroy(b_);
    cudaEventDestroy(event_);
    cudaGetLastError();
  }
  cudaStream_t a_ = make_stream(), b_ = make_stream();
  cudaEvent_t event_ = make_event();
};

TEST_F(FakeCuda, NothingRunsBeforeSomebodyWaits) {
  std::vector<int> list;
  put(a_, list, 1);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_EQ(list, std::vector<int>{1});
}

/// How often stream b's number comes before stream a's in twenty runs.
int early(cudaStream_t a, cudaStream_t b, cudaEvent_t event, bool waits) {
  int count = 0;
  for (int run = 0; run < 20; ++run) {
    std::vector<int> list;
    put(a, list, 1);
    cudaEventRecord(event, a);
    if (waits) cudaStreamWaitEvent(b, event, 0);
    put(b, list, 2);
    cudaDeviceSynchronize();
    count += list.front() == 2 ? 1 : 0;
  }
  return count;
}

TEST_F(FakeCuda, StreamsThatDoNotWaitOvertakeOneAnother) {
  EXPECT_EQ(early(a_, b_, event_, true), 0);
  const int without = early(a_, b_, event_, false);
  EXPECT_GT(without, 2);
  EXPECT_LT(without, 18);
}

TEST_F(FakeCuda, AnEventThatIsRecordedAgainLetsEarlierWaitsBe) {
  std::vector<int> list;
  put(a_, list, 1);
  cudaEventRecord(event_, a_);
  cudaStreamWaitEvent(b_, event_, 0);
  put(b_, list, 2);
  put(a_, list, 3);
  cudaEventRecord(event_, a_);
  EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_EQ(list.front(), 1);
  const bool passed = cudaEventQuery(event_) == cudaSuccess;
  if (passed) {
    EXPECT_EQ(std::count(list.begin(), list.end(), 3), 1);
  }
  EXPECT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  EXPECT_EQ(list.size(), 3);
}

TEST_F(FakeCuda, GraphsRunAgainAndKeepTheirEdges) {
  std::vector<int> list;
  ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  put(a_, list, 1);
  cudaEventRecord(event_, a_);
  cudaStreamWaitEvent(b_, event_, 0);
  put(b_, list, 2);
  put(a_, list, 3);
  cudaEvent_t joined = make_event();
  cudaEventRecord(joined, b_);
  cudaStreamWaitEvent(a_, joined, 0);
  put(a_, list, 4);
  comm::StreamGraph graph(a_);
  EXPECT_TRUE(list.empty());
  for (int run = 0; run < 10; ++run) {
    list.clear();
    graph.launch();
    EXPECT_TRUE(list.empty());
    cudaStreamSynchronize(a_);
    ASSERT_EQ(list.size(), 4);
    EXPECT_EQ(list.front(), 1);
    EXPECT_EQ(list.back(), 4);
  }
  cudaEventDestroy(joined);
}

TEST_F(FakeCuda, CapturesRefuseWhatCudaRefuses) {
  std::vector<int> list;
  cudaGraph_t graph = nullptr;
  const auto begin = [&] {
    ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  };
  begin();
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorStreamCaptureInvalidated);
  begin();
  cudaEventRecord(event_, a_);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorCapturedEvent);
  cudaStreamWaitEvent(b_, event_, 0);
  put(b_, list, 1);
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  cudaEventRecord(event_, b_);
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(a_, event_, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST_F(FakeCuda, TheLegacyStreamEndsACaptureOfABlockingStream) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  const std::function<cudaError_t()> uses[] = {
      [] { return fakecuda::enqueue_call(cudaStreamLegacy, "a kernel", [] {}); },
      [] { return cudaStreamSynchronize(cudaStreamLegacy); },
      [&] { return cudaEventRecord(event_, cudaStreamLegacy); },
      [&] { return cudaStreamWaitEvent(cudaStreamLegacy, event_, 0); }};
  cudaGraph_t graph = nullptr;
  for (const auto& use : uses) {
    ASSERT_EQ(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed), cudaSuccess);
    EXPECT_EQ(use(), cudaErrorStreamCaptureImplicit);
    EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
  }
  // A stream that does not wait for the legacy one leaves it its freedom.
  ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(cudaStreamLegacy), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

TEST_F(FakeCuda, TheLegacyStreamAndBlockingOnesWaitForOneAnother) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  int early = 0;
  for (int run = 0; run < 20; ++run) {
    std::vector<int> list;
    put(blocking, list, 1);
    put(cudaStreamLegacy, list, 2);
    put(blocking, list, 3);
    put(a_, list, 4);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    early += list.back() != 4 ? 1 : 0;
    list.erase(std::find(list.begin(), list.end(), 4));
    EXPECT_EQ(list, (std::vector<int>{1, 2, 3}));
  }
  EXPECT_GT(early, 2);  // the non-blocking stream waits for neither
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

/// What waits for an event or records it goes on, though nobody else can use the event any more.
TEST_F(FakeCuda, AnEventMayBeDestroyedBeforeItIsDone) {
  std::vector<int> list;
  cudaEvent_t event = make_event();
  put(a_, list, 1);
  cudaEventRecord(event, a_);
  cudaStreamWaitEvent(b_, event, 0);
  put(b_, list, 2);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_EQ(list, (std::vector<int>{1, 2}));

  event = make_event();
  ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaEventRecordWithFlags(event, a_, cudaEventRecordExternal), cudaSuccess);
  comm::StreamGraph graph(a_);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  cudaEvent_t other = make_event();  // it would have the same place, if that were free
  graph.launch();
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  float ms = 0;
  EXPECT_EQ(cudaEventElapsedTime(&ms, other, other),
            cudaErrorInvalidResourceHandle);  // it was never recorded
  EXPECT_EQ(cudaEventDestroy(other), cudaSuccess);
}

TEST_F(FakeCuda, AnotherDevicesStreamIsRefused) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(fakecuda::enqueue_call(a_, "nothing", [] {}), cudaErrorInvalidResourceHandle);
  cudaEvent_t other = make_event();
  EXPECT_EQ(cudaEventRecord(other, a_),
            cudaErrorInvalidResourceHandle);  // of this device, on a stream of the other
  EXPECT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  cudaEventDestroy(other);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

class FakeCudaDeathTest : public FakeCuda {
 protected:
  FakeCudaDeathTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(FakeCudaDeathTest, TheLegacyStreamIsNoPartOfACapture) {
  const auto mixed = [&] {
    cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed);
    fakecuda::enqueue_call(nullptr, "a kernel", [] {});
  };
  EXPECT_DEATH(mixed(), "a kernel goes to the legacy stream while another one is captured");
}

TEST_F(FakeCudaDeathTest, TheHostCannotTouchTheDevicesMemory) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 100), cudaSuccess);
  EXPECT_DEATH(std::memset(memory, 0, 1), "the host touches memory of the device");
  std::array<unsigned char, 100> copy{};
  EXPECT_EQ(cudaMemcpyAsync(copy.data(), memory, 100, cudaMemcpyDeviceToHost, a_), cudaSuccess);
  cudaStreamSynchronize(a_);
  EXPECT_EQ(copy[99], 0xff);  // what nobody wrote is a NaN
  EXPECT_DEATH(cudaMemcpyAsync(copy.data(), copy.data(), 1, cudaMemcpyDeviceToDevice, a_),
               "lies in no allocation");
  EXPECT_DEATH(cudaMemsetAsync(memory, 0, 101, a_), "lies in no allocation");
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  const auto use_after_free = [&] {
    fakecuda::enqueue_call(a_, "late", [memory] { std::memset(memory, 0, 1); });
    cudaStreamSynchronize(a_);
  };
  EXPECT_DEATH(use_after_free(), "what no allocation holds");
}

/// Every thread writes a number, and reads that of its neighbour.
int wrong_neighbours(bool waits) {
  constexpr int team = 64;
  const fakecuda::Execution space;
  std::vector<int> seen(team, -1);
  using Policy = Kokkos::TeamPolicy<fakecuda::Execution>;
  Policy policy(space, 1, team);
  policy.set_scratch_size(0, Kokkos::PerTeam(team * sizeof(int)));
  int* out = seen.data();
  Kokkos::parallel_for("neighbours", policy, [=](const Policy::member_type& member) {
    auto* numbers = static_cast<int*>(member.team_shmem().get_shmem(team * sizeof(int)));
    numbers[member.team_rank()] = member.team_rank();
    if (waits) member.team_barrier();
    out[member.team_rank()] = numbers[(member.team_rank() + 1) % team];
  });
  space.fence();
  int wrong = 0;
  for (int i = 0; i < team; ++i) wrong += seen[static_cast<std::size_t>(i)] == (i + 1) % team ? 0 : 1;
  return wrong;
}

TEST(FakeTeams, AMissingBarrierIsSeen) {
  EXPECT_EQ(wrong_neighbours(true), 0);
  EXPECT_GT(wrong_neighbours(false), 0);
}

TEST(FakeTeams, SumsAndMaximaReachAllThreads) {
  constexpr int team = 96;
  const fakecuda::Execution space;
  std::vector<float> sums(team), maxima(team);
  float *sum = sums.data(), *most = maxima.data();
  using Policy = Kokkos::TeamPolicy<fakecuda::Execution>;
  Kokkos::parallel_for("sums", Policy(space, 3, team), [=](const Policy::member_type& member) {
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(member, 1000), [](int i, float& t) { t += static_cast<float>(i); },
        sum[member.team_rank()]);
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(member, 1000),
        [](int i, float& t) { t = static_cast<float>(i) > t ? static_cast<float>(i) : t; },
        Kokkos::Max<float>(most[member.team_rank()]));
  });
  space.fence();
  EXPECT_EQ(sums, std::vector<float>(team, 499500.0F));
  EXPECT_EQ(maxima, std::vector<float>(team, 999.0F));
}

/// Runs `body` as so many ranks, each on a thread and a device of its own, with two communicators of them
/// all.
void on_ranks(int ranks, const std::function<void(int rank, ncclComm_t first, ncclComm_t second)>& body) {
  std::array<ncclUniqueId, 2> ids{};
  for (ncclUniqueId& id : ids) ncclGetUniqueId(&id);
  const auto run = [&](int rank) {
    cudaSetDevice(rank);
    std::array<ncclComm_t, 2> comms{};
    for (std::size_t i = 0; i < comms.size(); ++i) ncclCommInitRank(&comms[i], ranks, ids[i], rank);
    body(rank, comms[0], comms[1]);
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
}

TEST(FakeNcclDeathTest, RanksEndTheirCommunicatorsInOneOrder) {
  const auto end = [](bool in_one_order) {
    if (!in_one_order) ::setenv("FAKECUDA_DEADLINE", "1", 1);  // of the process that dies
    on_ranks(2, [&](int rank, ncclComm_t first, ncclComm_t second) {
      const bool swap = rank == 1 && !in_one_order;
      ncclCommDestroy(swap ? second : first);
      ncclCommDestroy(swap ? first : second);
    });
  };
  end(true);
  EXPECT_DEATH(end(false), "ncclCommDestroy: a rank did not come");
}

TEST(FakeNcclDeathTest, RanksHaveOneLimitOfBlocks) {
  const auto open = [](int of_rank_1) {
    ncclUniqueId id{};
    ncclGetUniqueId(&id);
    const auto run = [&](int rank) {
      cudaSetDevice(rank);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.maxCTAs = rank == 0 ? 8 : of_rank_1;
      ncclComm_t comm = nullptr;
      EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config), ncclSuccess);
      ncclCommDestroy(comm);
    };
    std::thread other(run, 1);
    run(0);
    other.join();
  };
  open(8);
  EXPECT_EQ(fakecuda::objects("blocks of communicators"), 0);
  EXPECT_DEATH(open(16), "ncclCommInitRankConfig: rank . has (8|16) blocks at most, and rank . has (8|16)");
  ::setenv("NCCL_MAX_CTAS", "4", 1);  // a limit of the environment goes before
  open(16);
  ::unsetenv("NCCL_MAX_CTAS");
}

enum class Registered { by_both, by_rank_0 };

/// Runs `body` as two ranks, each with a stream and with 4 KiB of NCCL's memory.
void on_memory(Registered registered,
               const std::function<void(int rank, ncclComm_t, std::byte* memory, cudaStream_t)>& body) {
  constexpr std::size_t bytes = 4096;
  std::array<void*, 2> memory{};
  for (void*& m : memory) ASSERT_EQ(ncclMemAlloc(&m, bytes), ncclSuccess);
  on_ranks(2, [&](int rank, ncclComm_t comm, ncclComm_t other) {
    auto* const mine = static_cast<std::byte*>(memory[static_cast<std::size_t>(rank)]);
    void* handle = nullptr;
    if (rank == 0 || registered == Registered::by_both) {
      EXPECT_EQ(ncclCommRegister(comm, mine, bytes, &handle), ncclSuccess);
      EXPECT_NE(handle, nullptr);
    }
    cudaStream_t stream = make_stream();
    EXPECT_EQ(cudaMemsetAsync(mine, 0, bytes, stream), cudaSuccess);
    body(rank, comm, mine, stream);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    if (handle != nullptr) {
      EXPECT_EQ(ncclCommDeregister(comm, handle), ncclSuccess);
    }
    ncclCommDestroy(comm);
    ncclCommDestroy(other);
  });
  for (void* m : memory) ASSERT_EQ(ncclMemFree(m), ncclSuccess);
}

/// Gathers in place, and then from another place. The operands of rank 1 lie `behind` those of rank 0.
void gather(Registered registered, std::ptrdiff_t behind) {
  on_memory(registered, [=](int rank, ncclComm_t comm, std::byte* memory, cudaStream_t stream) {
    constexpr std::ptrdiff_t part = 64;
    std::byte* const out = memory + rank * behind;
    EXPECT_EQ(ncclAllGather(out + rank * part, out, part, ncclUint8, comm, stream), ncclSuccess);
    EXPECT_EQ(ncclAllGather(out, out + 2 * part, part, ncclUint8, comm, stream), ncclSuccess);
  });
}

void send(Registered registered) {
  on_memory(registered, [](int rank, ncclComm_t comm, std::byte* memory, cudaStream_t stream) {
    const ncclResult_t result = rank == 0 ? ncclSend(memory, 64, ncclUint8, 1, comm, stream)
                                          : ncclRecv(memory + 256, 64, ncclUint8, 0, comm, stream);
    EXPECT_EQ(result, ncclSuccess);
  });
}

TEST(FakeNcclDeathTest, OperandsLieInRegisteredMemoryAtOnePlaceOrInNone) {
  gather(Registered::by_both, 0);
  EXPECT_DEATH(gather(Registered::by_rank_0, 0),
               "collective 1 .ncclAllGather. lies elsewhere on other ranks");
  EXPECT_DEATH(gather(Registered::by_both, 256),
               "collective 1 .ncclAllGather. lies elsewhere on other ranks");
  send(Registered::by_both);  // a message may lie anywhere there
  EXPECT_DEATH(send(Registered::by_rank_0), "rank 1 receives in memory that is not registered");
}

/// Makes a call on both ranks, of which some capture it and launch the graph.
enum class Captures { none, rank_1, both };
void call(Captures captures,
          const std::function<void(int rank, ncclComm_t, std::byte*, cudaStream_t)>& make) {
  on_memory(Registered::by_both, [&](int rank, ncclComm_t comm, std::byte* memory, cudaStream_t stream) {
    if (captures == Captures::none || (captures == Captures::rank_1 && rank == 0))
      return make(rank, comm, memory, stream);
    comm::StreamGraph::begin(stream);
    make(rank, comm, memory, stream);
    comm::StreamGraph graph(stream);
    graph.launch();
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  });
}

TEST(FakeNcclDeathTest, ACallIsCapturedOnAllRanksOrOnNone) {
  const auto sum = [](int, ncclComm_t comm, std::byte* memory, cudaStream_t stream) {
    EXPECT_EQ(ncclAllReduce(memory, memory, 8, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
  };
  const auto message = [](int rank, ncclComm_t comm, std::byte* memory, cudaStream_t stream) {
    const ncclResult_t result = rank == 0 ? ncclSend(memory, 64, ncclUint8, 1, comm, stream)
                                          : ncclRecv(memory, 64, ncclUint8, 0, comm, stream);
    EXPECT_EQ(result, ncclSuccess);
  };
  for (const Captures captures : {Captures::none, Captures::both}) {
    call(captures, sum);
    call(captures, message);
  }
  EXPECT_DEATH(call(Captures::rank_1, sum), "collective 1 differs: rank .*root 0, captured");
  EXPECT_DEATH(
      call(Captures::rank_1, message),
      "rank 1 receives 64 elements of type 1, captured from rank 0, which sends 64 elements of type 1");
}

/// What a rank calls: with 4 KiB behind each operand, every one of these stays in its allocation.
struct Collective {
  std::string text;  ///< as the fake tells it
  std::function<ncclResult_t(ncclComm_t, std::byte*, cudaStream_t)> make;
};

Collective sum_of(std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
  return {"ncclAllReduce of " + std::to_string(count) + " elements of type " + std::to_string(type) +
              ", operation " + std::to_string(op) + ", root 0",
          [=](ncclComm_t comm, std::byte* memory, cudaStream_t stream) {
            return ncclAllReduce(memory, memory, count, type, op, comm, stream);
          }};
}
Collective broadcast_from(int root) {
  return {"ncclBroadcast of 8 elements of type 7, operation 0, root " + std::to_string(root),
          [=](ncclComm_t comm, std::byte* memory, cudaStream_t stream) {
            return ncclBroadcast(memory, memory, 8, ncclFloat32, root, comm, stream);
          }};
}

void call_each(const Collective& of_rank_0, const Collective& of_rank_1) {
  call(Captures::none, [&](int rank, ncclComm_t comm, std::byte* memory, cudaStream_t stream) {
    EXPECT_EQ((rank == 0 ? of_rank_0 : of_rank_1).make(comm, memory, stream), ncclSuccess);
  });
}

/// The line has both calls, whichever rank tells it.
TEST(FakeNcclDeathTest, RanksMakeTheSameCall) {
  const Collective mine = sum_of(8, ncclFloat32, ncclSum);
  const std::vector<std::pair<Collective, Collective>> pairs{{mine, sum_of(16, ncclFloat32, ncclSum)},
                                                             {mine, sum_of(8, ncclInt32, ncclSum)},
                                                             {mine, sum_of(8, ncclFloat32, ncclMax)},
                                                             {mine, broadcast_from(0)},
                                                             {broadcast_from(0), broadcast_from(1)}};
  for (const auto& [first, second] : pairs) {
    call_each(first, first);
    call_each(second, second);
    EXPECT_DEATH(call_each(first, second), "fakecuda: collective 1 differs: (rank 0 has " + first.text +
                                               ", rank 1 has " + second.text + "|rank 1 has " + second.text +
                                               ", rank 0 has " + first.text + ")\n");
  }
}

TEST(FakeNcclDeathTest, MessagesHaveOneTypeAtBothEnds) {
  const auto message = [](std::size_t count, ncclDataType_t type) {
    call(Captures::none, [=](int rank, ncclComm_t comm, std::byte* memory, cudaStream_t stream) {
      const ncclResult_t result = rank == 0 ? ncclSend(memory, 64, ncclUint8, 1, comm, stream)
                                            : ncclRecv(memory, count, type, 0, comm, stream);
      EXPECT_EQ(result, ncclSuccess);
    });
  };
  message(64, ncclUint8);
  EXPECT_DEATH(message(16, ncclFloat32),
               "rank 1 receives 16 elements of type 7 from rank 0, which sends 64 elements of type 1");
  EXPECT_DEATH(message(63, ncclUint8), "rank 1 receives 63 elements");
}

TEST(FakeNcclDeathTest, NothingHoldsCallsOfACommunicatorThatEnds) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  void* memory = nullptr;
  cudaStream_t stream = make_stream();
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  const auto sum = [&] {
    EXPECT_EQ(ncclAllReduce(memory, memory, 8, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
  };
  const auto end_behind_a_gate = [&] {  // it never opens: what is behind it stays on the stream
    fakecuda::enqueue(stream, "a gate",
                      [] { return fakecuda::Work([] { return fakecuda::Turn::waiting; }); });
    sum();
    ncclCommDestroy(comm);
  };
  EXPECT_DEATH(end_behind_a_gate(), "ncclCommDestroy: a stream still has calls of the communicator");
  {
    comm::StreamGraph::begin(stream);
    sum();
    comm::StreamGraph graph(stream);
    graph.launch();
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_DEATH(ncclCommDestroy(comm), "ncclCommDestroy: a graph still has calls of the communicator");
  }
  // A capture that failed has none, though an event was recorded in it.
  cudaEvent_t event = make_event();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  sum();
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  cudaGetLastError();
}

TEST(FakeNccl, OnlyItsOwnMemoryCanBeRegistered) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 100), cudaSuccess);
  on_ranks(2, [&](int, ncclComm_t comm, ncclComm_t other) {
    void* handle = nullptr;
    EXPECT_EQ(ncclCommRegister(comm, memory, 100, &handle), ncclSuccess);
    EXPECT_EQ(handle, nullptr);
    ncclCommDestroy(comm);
    ncclCommDestroy(other);
  });
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
}

TEST(FakeNcclDeathTest, RegistrationsEndBeforeTheirMemoryAndTheirCommunicator) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  void *memory = nullptr, *handle = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  ASSERT_EQ(ncclMemAlloc(&memory, 4096), ncclSuccess);
  ASSERT_EQ(ncclCommRegister(comm, memory, 4096, &handle), ncclSuccess);
  EXPECT_DEATH(ncclMemFree(memory), "ncclMemFree: a communicator still has the memory registered");
  EXPECT_DEATH(ncclCommDestroy(comm), "ncclCommDestroy: the communicator still has memory registered");
  try {  // an exception leaves communicators to the process' end, and frees memory all the same
    const std::shared_ptr<void> freed(memory, ncclMemFree);
    throw std::runtime_error("an error");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(ncclCommDeregister(comm, handle), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

constexpr std::size_t shown_bytes = 4096;

/// Runs `body` as two ranks, each with a window of NCCL's memory whose bytes are the rank's number and one,
/// and with a device communicator of four barriers.
void on_windows(const std::function<void(int rank, ncclComm_t, const ncclDevComm&, ncclWindow_t)>& body) {
  std::array<void*, 2> memory{};
  for (void*& m : memory) ASSERT_EQ(ncclMemAlloc(&m, shown_bytes), ncclSuccess);
  on_ranks(2, [&](int rank, ncclComm_t comm, ncclComm_t other) {
    void* const mine = memory[static_cast<std::size_t>(rank)];
    EXPECT_EQ(cudaMemset(mine, rank + 1, shown_bytes), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ncclWindow_t window = nullptr;
    ncclDevComm device{};
    ncclDevCommRequirements needs{};
    needs.lsaBarrierCount = 4;
    EXPECT_EQ(ncclCommWindowRegister(comm, mine, shown_bytes, &window, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
    EXPECT_EQ(ncclDevCommCreate(comm, &needs, &device), ncclSuccess);
    body(rank, comm, device, window);
    EXPECT_EQ(ncclDevCommDestroy(comm, &device), ncclSuccess);
    EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess);
    ncclCommDestroy(comm);
    ncclCommDestroy(other);
  });
  for (void* m : memory) ASSERT_EQ(ncclMemFree(m), ncclSuccess);
}

enum class Does { meet, read };

/// Twenty kernels of these steps on each rank, which read 64 bytes; those of rank 1 lie `behind` those of
/// rank 0, in so many blocks.
void read_peers(const std::vector<Does>& all, std::size_t behind = 0, int blocks_of_rank_1 = 4) {
  on_windows([&](int rank, ncclComm_t, const ncclDevComm& device, ncclWindow_t window) {
    cudaStream_t stream = make_stream();
    int reads = 0;
    std::vector<fakecuda::PeerStep> steps;
    for (const Does one : all)
      steps.emplace_back(one == Does::meet ? fakecuda::PeerStep()
                                           : [&reads](const std::vector<const std::byte*>& ranks) {
                                               for (std::size_t r = 0; r < ranks.size(); ++r)
                                                 EXPECT_EQ(std::to_integer<std::size_t>(*ranks[r]), r + 1);
                                               ++reads;
                                             });
    const fakecuda::PeerCall call{rank * behind, 64, 0, rank == 1 ? blocks_of_rank_1 : 4};
    for (int kernel = 0; kernel < 20; ++kernel)
      EXPECT_EQ(fakecuda::enqueue_peer_kernel(stream, "a kernel", device, window, call, steps), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(reads, 20);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  });
}

TEST(FakeNcclDeathTest, KernelsMeetBeforeAndAfterTheyReadEachOthersMemory) {
  read_peers({Does::meet, Does::read, Does::meet});
  EXPECT_DEATH(read_peers({Does::read, Does::meet}), "reads before it has met rank [01]");
  EXPECT_DEATH(read_peers({Does::meet, Does::read}), "ends before its own was read by rank [01]");
}

TEST(FakeNcclDeathTest, KernelsThatReadEachOthersMemoryAreAlike) {
  const std::vector<Does> steps{Does::meet, Does::read, Does::meet};
  EXPECT_DEATH(read_peers(steps, 64),
               "kernel 1 that reads other ranks' memory differs: .* at (0|64) of window 0");
  EXPECT_DEATH(read_peers(steps, 0, 2), "kernel 1 that reads other ranks' memory differs: .*, [24] blocks");
  EXPECT_DEATH(read_peers(steps, 0, 5),
               "a kernel: it has 5 blocks, and the device communicator has 4 barriers");
  EXPECT_DEATH(read_peers(steps, shown_bytes - 63), "a kernel: it reads past the end of its window");
}

TEST(FakeNcclDeathTest, WindowsAreOfNcclsMemoryAndOfOneSize) {
  const auto open = [](bool of_nccl, std::size_t bytes_of_rank_1) {
    void* memory = nullptr;
    ASSERT_EQ(of_nccl ? static_cast<int>(ncclMemAlloc(&memory, 512)) : cudaMalloc(&memory, 512), 0);
    on_ranks(2, [&](int rank, ncclComm_t comm, ncclComm_t other) {
      ncclWindow_t window = nullptr;
      EXPECT_EQ(ncclCommWindowRegister(comm, memory, rank == 1 ? bytes_of_rank_1 : 512, &window,
                                       NCCL_WIN_COLL_SYMMETRIC),
                ncclSuccess);
      EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess);
      ncclCommDestroy(comm);
      ncclCommDestroy(other);
    });
    ASSERT_EQ(ncclMemFree(memory), ncclSuccess);
  };
  open(true, 512);
  EXPECT_DEATH(open(false, 512), "ncclCommWindowRegister: the memory is not one allocation of ncclMemAlloc");
  EXPECT_DEATH(open(true, 256), "ncclCommWindowRegister differs: rank . has (256|512), rank . has");
}

TEST(FakeNcclDeathTest, WindowsAndDeviceCommunicatorsEndBeforeTheirCommunicator) {
  const auto end_at = [](const char* last) {
    on_windows([&](int, ncclComm_t comm, const ncclDevComm& device, ncclWindow_t window) {
      if (std::strcmp(last, "window") == 0) ncclDevCommDestroy(comm, &device);
      if (std::strcmp(last, "device communicator") == 0) ncclCommWindowDeregister(comm, window);
      ncclCommDestroy(comm);
    });
  };
  EXPECT_DEATH(end_at("window"), "ncclCommDestroy: the communicator still has windows");
  EXPECT_DEATH(end_at("device communicator"),
               "ncclCommDestroy: the communicator still has a device communicator");
}

/// Sums three numbers of which one is 1, and the others are 1e8 and -1e8, beside which it is lost: only where
/// it is added last, the sum is 1. Part by part of a vector, another rank is the last.
TEST(FakeNccl, AddsInTheOrderOfARing) {
  constexpr int ranks = 3;
  constexpr std::size_t part = 5, count = ranks * part;
  on_ranks(ranks, [&](int rank, ncclComm_t comm, ncclComm_t other) {
    cudaStream_t stream = make_stream();
    void *terms = nullptr, *sums = nullptr;
    EXPECT_EQ(cudaMalloc(&terms, count * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&sums, count * sizeof(float)), cudaSuccess);
    for (int one = 0; one < ranks; ++one) {
      const std::vector<float> mine(count, rank == one ? 1.0F : rank == (one + 1) % ranks ? 1e8F : -1e8F);
      std::vector<float> all(count - 1), slice(part);  // the last part of `all` is a shorter one
      const auto fetch = [&](std::vector<float>& to) {
        cudaMemcpyAsync(to.data(), sums, to.size() * sizeof(float), cudaMemcpyDeviceToHost, stream);
        EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      };
      cudaMemcpyAsync(terms, mine.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream);
      EXPECT_EQ(ncclAllReduce(terms, sums, all.size(), ncclFloat32, ncclSum, comm, stream), ncclSuccess);
      fetch(all);
      EXPECT_EQ(ncclReduceScatter(terms, sums, part, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
      fetch(slice);
      const auto last = static_cast<std::size_t>(one);
      for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i / part == last ? 1.0F : 0.0F) << i;
      EXPECT_EQ(slice, std::vector<float>(part, rank == one ? 1.0F : 0.0F));
    }
    EXPECT_EQ(cudaFree(terms), cudaSuccess);
    EXPECT_EQ(cudaFree(sums), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    ncclCommDestroy(comm);
    ncclCommDestroy(other);
  });
}

}  // namespace
}  // namespace weft::test
