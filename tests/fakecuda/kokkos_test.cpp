// Tests of the fake of Kokkos' CUDA back end, and of what Weft makes of it: a Space with a stream of its own.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>

#include "fakecuda/device.hpp"
#include "fakecuda/kokkos.hpp"
#include "kernels/kokkos_space.hpp"
#include "kernels/memory.hpp"
#include "support/kokkos_environment.hpp"
#include "support/temporary_directory.hpp"

namespace weft::test {
namespace {

unsigned flags_of(void* stream) {
  unsigned flags = 0;
  EXPECT_EQ(cudaStreamGetFlags(static_cast<cudaStream_t>(stream), &flags), cudaSuccess);
  return flags;
}

/// What Kokkos makes waits for the legacy stream, and what Weft makes does not.
TEST(FakeKokkos, ASpaceDoesNotWaitForTheLegacyStream) {
  const kernels::Space space;
  EXPECT_EQ(flags_of(kernels::native_stream(space)), cudaStreamNonBlocking);
  EXPECT_EQ(flags_of(fakecuda::Execution().cuda_stream()), cudaStreamDefault);
  const auto parts = Kokkos::Experimental::partition_space(fakecuda::Execution(), 1);
  EXPECT_EQ(flags_of(parts[0].cuda_stream()), cudaStreamDefault);
}

/// A space lies on the device of Kokkos, whatever the thread's is, and leaves no stream.
TEST(FakeKokkos, ASpaceOwnsAStreamOfKokkosDevice) {
  const int device = fakecuda::current_device(), before = fakecuda::objects("streams");
  {
    ASSERT_EQ(cudaSetDevice(device + 1), cudaSuccess);
    kernels::Space space;
    EXPECT_EQ(fakecuda::device_of(static_cast<cudaStream_t>(kernels::native_stream(space))), device);
    EXPECT_EQ(fakecuda::objects("streams"), before + 1);
    space = kernels::Space();
    EXPECT_EQ(fakecuda::objects("streams"), before + 1);
  }
  EXPECT_EQ(fakecuda::objects("streams"), before);
}

std::int64_t sum_below_ten(const fakecuda::Execution& space) {
  std::int64_t sum = 0;
  Kokkos::parallel_reduce(
      "a sum", Kokkos::RangePolicy<fakecuda::Execution>(space, 0, 10),
      [](std::int64_t i, std::int64_t& own) { own += i; }, sum);
  return sum;
}

/// Kokkos clears an instance's flags on the legacy stream. The order is drawn by lot, and twenty times at
/// once the right one is not drawn.
TEST(FakeKokkosDeathTest, ReductionsWaitForTheirFlags) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (int i = 0; i < 20; ++i) {
    const kernels::Space space;
    EXPECT_EQ(sum_below_ten(kernels::execution_of(space)), 45);
    EXPECT_EQ(sum_below_ten(fakecuda::Execution::with_stream()), 45);
  }
  const auto without_a_wait = [] {
    for (int i = 0; i < 20; ++i) {
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      sum_below_ten(fakecuda::Execution(stream));
      cudaStreamDestroy(stream);
    }
  };
  EXPECT_DEATH(without_a_wait(), "a sum counts with flags that the legacy stream has not cleared yet");
}

TEST(FakeKokkos, ATeamHasNoMoreSharedMemoryThanKokkosGives) {
  using Policy = Kokkos::TeamPolicy<fakecuda::Execution>;
  const fakecuda::Execution space;
  int runs = 0;
  int* const counted = &runs;
  const auto launch = [&](int team, std::size_t scratch) {
    Policy policy(space, 1, team);
    policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(scratch)));
    Kokkos::parallel_for("a team", policy,
                         [=](const Policy::member_type& member) { *counted += member.team_rank() == 0; });
    space.fence();
  };
  for (const int team : {1, 32, 1024}) {
    const std::size_t most = 48 * 1024 - sizeof(double) * static_cast<std::size_t>(team + 2);
    launch(team, most);
    EXPECT_THROW(launch(team, most + 1), std::runtime_error);
  }
  EXPECT_THROW(launch(1025, 0), std::runtime_error);
  EXPECT_EQ(runs, 3);
}

/// A functor and what Kokkos 4.7 passes behind it must come to less than 512 bytes. The sizes of Kokkos' own
/// classes were read from a compilation by nvcc.
template <std::size_t size>
struct Functor {
  std::byte data[size];
};
static_assert(fakecuda::can_be_captured<Functor<456>, fakecuda::range_bytes> &&
              !fakecuda::can_be_captured<Functor<457>, fakecuda::range_bytes>);
static_assert(fakecuda::can_be_captured<Functor<352>, fakecuda::team_bytes> &&
              !fakecuda::can_be_captured<Functor<353>, fakecuda::team_bytes>);

struct NamedBody {
  void operator()(std::int64_t) const {}
  void operator()(const fakecuda::Thread&) const {}
};
template <int>
struct NamedTemplate : NamedBody {};

/// perf/gpu.sh asks ncu for kernels by the mangled names of their functors.
TEST(FakeKokkos, KernelsAreListedByTheirFunctors) {
  const TemporaryDirectory directory;
  const std::string file = directory / "kernels";
  const fakecuda::Execution space;
  const auto launch = [&space] {
    Kokkos::parallel_for("a range", Kokkos::RangePolicy<fakecuda::Execution>(space, 0, 3), NamedBody{});
    Kokkos::parallel_for("a team", Kokkos::TeamPolicy<fakecuda::Execution>(space, 2, 32), NamedTemplate<7>{});
    EXPECT_EQ(sum_below_ten(space), 45);
  };
  ::setenv("FAKECUDA_KERNELS", file.c_str(), 1);
  launch();
  ::unsetenv("FAKECUDA_KERNELS");
  launch();
  space.fence();
  std::istringstream lines(read_file(file));
  std::string line;
  for (const char* const functor : {"9NamedBody", "13NamedTemplateILi7EE", "sum_below_ten"}) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_NE(line.find(functor), std::string::npos) << line;
  }
  EXPECT_FALSE(std::getline(lines, line)) << line;
}

/// What Weft copies without a wait lies in memory that the device reads and writes at its own time.
TEST(FakeKokkos, BuffersOfTheHostArePinned) {
  constexpr std::size_t bytes = 1000;
  const kernels::HostBuffer buffer(bytes);
  EXPECT_TRUE(fakecuda::is_pinned(buffer.data(), bytes));
  const int before = fakecuda::objects("allocations of pinned memory");
  const kernels::Staging staging(bytes);
  EXPECT_EQ(fakecuda::objects("allocations of pinned memory"), before + 1);
}

}  // namespace
}  // namespace weft::test
