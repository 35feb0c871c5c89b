// Tests that what nobody wrote is a NaN on the fake device. Zeros there would hide what reads it.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "fakecuda/kokkos.hpp"
#include "kernels/matmul.hpp"
#include "kernels/memory.hpp"
#include "support/kokkos_environment.hpp"
#ifdef WEFT_CUDNN
#include "kernels/attention_cudnn.hpp"
#endif

namespace weft::test {
namespace {

/// How many bytes have all bits set. A number of such bytes is a NaN in every type, and no index.
std::size_t bytes_of_nans(const std::vector<unsigned char>& bytes) {
  return static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), 0xff));
}
std::size_t bytes_of_nans(const void* device, std::size_t bytes) {
  std::vector<unsigned char> seen(bytes);
  EXPECT_EQ(cudaMemcpyAsync(seen.data(), device, bytes, cudaMemcpyDeviceToHost, cudaStreamLegacy),
            cudaSuccess);
  return bytes_of_nans(seen);
}

struct Allocator {
  const char* name;
  std::function<void*(std::size_t)> allocate;
  std::function<void(void*)> free;
};

/// They also fill memory that takes the place of other memory.
TEST(FakeNans, FillNewMemoryOfTheDevice) {
  const Allocator allocators[] = {{"cudaMalloc",
                                   [](std::size_t bytes) {
                                     void* memory = nullptr;
                                     EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
                                     return memory;
                                   },
                                   [](void* memory) { EXPECT_EQ(cudaFree(memory), cudaSuccess); }},
                                  {"ncclMemAlloc",
                                   [](std::size_t bytes) {
                                     void* memory = nullptr;
                                     EXPECT_EQ(ncclMemAlloc(&memory, bytes), ncclSuccess);
                                     return memory;
                                   },
                                   [](void* memory) { EXPECT_EQ(ncclMemFree(memory), ncclSuccess); }}};
  for (const Allocator& with : allocators)
    for (const std::size_t bytes : {1, 255, 4096, 4096, 100001}) {
      SCOPED_TRACE(testing::Message() << with.name << ", " << bytes << " bytes");
      void* const memory = with.allocate(bytes);
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(bytes_of_nans(memory, bytes), bytes);
      EXPECT_EQ(cudaMemsetAsync(memory, 0, bytes, cudaStreamLegacy), cudaSuccess);
      EXPECT_EQ(bytes_of_nans(memory, bytes), 0);
      with.free(memory);
    }
}

TEST(FakeNans, FillNewMemoryThatIsPinned) {
  constexpr std::size_t bytes = 5000;
  void* memory = nullptr;
  ASSERT_EQ(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), cudaSuccess);
  const auto* const first = static_cast<const unsigned char*>(memory);
  EXPECT_EQ(bytes_of_nans({first, first + bytes}), bytes);
  EXPECT_EQ(cudaFreeHost(memory), cudaSuccess);
}

/// A team sees nothing of what the team before it left, and a kernel nothing of another one's.
TEST(FakeNans, FillTheSharedMemoryOfEachTeam) {
  constexpr int teams = 3, team = 64, kernels = 2;
  using Policy = Kokkos::TeamPolicy<fakecuda::Execution>;
  const fakecuda::Execution space;
  for (int kernel = 0; kernel < kernels; ++kernel) {
    std::vector<std::uint32_t> seen(std::size_t{teams} * team);
    std::uint32_t* const out = seen.data();
    Policy policy(space, teams, team);
    policy.set_scratch_size(0, Kokkos::PerTeam(team * sizeof(std::uint32_t)));
    Kokkos::parallel_for("a team", policy, [=](const Policy::member_type& member) {
      auto* shared = static_cast<std::uint32_t*>(member.team_shmem().get_shmem(team * sizeof(std::uint32_t)));
      std::uint32_t& mine = shared[member.team_rank()];
      out[member.league_rank() * team + member.team_rank()] = mine;
      mine = 0;
    });
    space.fence();
    EXPECT_EQ(seen, std::vector<std::uint32_t>(seen.size(), 0xffffffff)) << "kernel " << kernel;
  }
}

/// The fake fills 64 KiB of a larger workspace.
TEST(FakeNans, FillTheWorkspaceOfAProduct) {
  kernels::Space space;
  kernels::Matmul product({kernels::MatmulForm::forward, 16, 16, 16, DType::bf16, DType::bf16});
  const std::size_t filled = std::min<std::size_t>(product.scratch_bytes(), 65536);
  ASSERT_GT(filled, 0);
  const kernels::Buffer operands(3 * 512, "operands"), scratch(product.scratch_bytes(), "scratch");
  EXPECT_EQ(bytes_of_nans(scratch.data(), filled), 0);
  product.run(space, operands.data(), operands.data() + 512, operands.data() + 1024, scratch.data());
  kernels::fence(space);
  EXPECT_EQ(bytes_of_nans(scratch.data(), filled), filled);
  EXPECT_EQ(bytes_of_nans(operands.data(), operands.size()), 0);
}

#ifdef WEFT_CUDNN
TEST(FakeNans, FillTheWorkspaceOfAttention) {
  kernels::Space space;
  kernels::cudnn::Attention attention({1, 64, 2, 2, 32});
  constexpr std::size_t tensor = 64 * 2 * 32 * sizeof(bf16), sums = 64 * 2 * sizeof(float);
  const kernels::Buffer operands(4 * tensor + sums, "operands"),
      scratch(attention.scratch_bytes(), "scratch");
  ASSERT_GT(scratch.size(), 0);
  EXPECT_EQ(bytes_of_nans(scratch.data(), scratch.size()), 0);
  std::byte* const at = operands.data();
  attention.run(space, at, at + tensor, at + 2 * tensor, at + 3 * tensor,
                reinterpret_cast<float*>(at + 4 * tensor), scratch.data());
  kernels::fence(space);
  EXPECT_EQ(bytes_of_nans(scratch.data(), scratch.size()), scratch.size());
}
#endif

}  // namespace
}  // namespace weft::test
