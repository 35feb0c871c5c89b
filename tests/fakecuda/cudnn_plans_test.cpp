// Compiles cuDNN's attention for an H100 where there is none: the library itself takes a device's properties
// instead of a device. So each shape that Weft ships is known to be served before there is a GPU, and plans
// that hosts make for GPUs hold what the library says it needs.
//
// This program has cuDNN itself, and not the fake.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <map>

#include "kernels/attention_cudnn.hpp"
#include "kernels/gpu_scratch.hpp"
#include "unit/deck/example.hpp"

namespace weft::kernels {
namespace {

/// An H100 SXM as cuDNN describes it. The names are the library's, and it refuses what lacks one.
constexpr const char* h100 = R"({
  "deviceName": "NVIDIA H100 80GB HBM3", "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "pciDeviceId": 0,
  "totalGlobalMem": 85045411840, "multiProcessorCount": 132, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
  "l2CacheSize": 52428800, "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32, "isTccDriver": 0, "supportCoopLaunch": 1,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64]})";

class CudnnPlans : public testing::Test {
 protected:
  static void SetUpTestSuite() { cudnn::compile_for(h100, 90); }
};

/// Compiles both directions, at some of the places up to `last_place`, and compares what they need with what
/// is planned.
void check(AttentionShape s, int last_place = 0) {
  SCOPED_TRACE(testing::Message() << "B " << s.batch << " T " << s.seq << " H " << s.heads << " Hkv "
                                  << s.kv_heads << " D " << s.head_dim << ", context " << s.context
                                  << (s.deterministic ? "" : ", any order"));
  const cudnn::Attention forward(s);
  const cudnn::AttentionBackward backward(s, gpu::most_attention_bytes);
  EXPECT_EQ(forward.scratch_bytes(), gpu::attention_bytes(DType::bf16, false));
  const auto needed = static_cast<double>(backward.scratch_bytes()),
             planned = static_cast<double>(gpu::attention_grad_bytes(s, DType::bf16, false));
  EXPECT_LE(needed, planned);
  EXPECT_GE(needed, 0.98 * planned);
  for (s.place = last_place; s.place > 0; s.place /= 2) {
    EXPECT_NO_THROW(cudnn::Attention(s, forward)) << "place " << s.place;
    EXPECT_NO_THROW(cudnn::AttentionBackward(s, backward)) << "place " << s.place;
  }
}

/// The shapes are those of a rank on the mesh that stands in the deck.
TEST_F(CudnnPlans, OfTheDecksThatAreShipped) {
  for (const std::string& name : test::input_decks) {
    SCOPED_TRACE(name);
    const Deck deck = parse_deck(test::input_path(name));
    std::map<std::string, std::int64_t> ranks{{"tensor", 1}, {"context", 1}};
    for (const MeshAxis& axis : deck.parallel.mesh) ranks[axis.name] = axis.size;
    const auto context = static_cast<int>(ranks["context"]);
    check({deck.data.batch, deck.data.seq, deck.model.heads / ranks["tensor"],
           deck.model.kv_heads / ranks["tensor"], deck.model.dim / deck.model.heads, context, 0,
           deck.precision.deterministic},
          context - 1);
  }
}

TEST_F(CudnnPlans, OfWholeSequences) {
  check({1, 8192, 32, 8, 64});    // 1B
  check({2, 8192, 32, 8, 64});    // 1B, as it was measured
  check({1, 8192, 8, 1, 128});    // 70B over a tensor axis of 8
  check({1, 32768, 16, 1, 128});  // head by head
  check({4, 2048, 8, 4, 64});     // bench_33m, with longer sequences
  check({2, 200, 4, 2, 64});      // no whole tiles
  check({2, 200, 4, 4, 64});      // no shared keys
  check({1, 32768, 32, 8, 128, 1, 0, false});
  check({2, 200, 4, 2, 64, 1, 0, false});
}

TEST_F(CudnnPlans, OfSections) {
  check({1, 16384, 32, 8, 128, 2}, 1);
  check({1, 131072, 4, 1, 128, 8}, 7);
  check({1, 131072, 16, 1, 128, 8, 0, false}, 7);
  check({3, 8 * 192, 8, 2, 128, 4}, 3);
}

TEST_F(CudnnPlans, AreRefusedWhereThereIsNoKernel) {
  EXPECT_THROW(cudnn::Attention({1, 64, 2, 2, 12}), cudnn::NotSupported);
}

}  // namespace
}  // namespace weft::kernels
