// Tests the scratch of plans for GPUs, which every build makes alike.
#include "exec/scratch.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/device.hpp"
#include "kernels/gpu_scratch.hpp"
#include "support/kokkos_environment.hpp"
#include "unit/graph/small_model.hpp"

namespace weft::exec {
namespace {

using ir::Op;

constexpr std::int64_t mib = 1 << 20;

machine::Compute gpu_with(double rowwise, double tensorwise) {
  machine::Compute gpu;
  gpu.threads = 0;
  gpu.matmul_f8 = rowwise;
  gpu.matmul_f8_tensorwise = tensorwise;
  return gpu;
}

/// Products have cuBLASLt's workspace, whatever the shape; in Float8 there are 4 bytes for each column of the
/// result, and the weight, which the gradient of x reads transposed.
TEST(GpuScratch, IsThatOfTheLibraries) {
  const ir::Graph g = test::small_step_with_float8();
  const plan::ScratchQuery query = gpu_scratch_query(gpu_with(1e15, 0));
  std::set<Op> seen;
  for (const ir::Node& node : g.nodes()) {
    const std::int64_t bytes = query(g, node);
    switch (node.op) {
      case Op::matmul:
      case Op::matmul_dgrad:
      case Op::matmul_wgrad: EXPECT_EQ(bytes, 32 * mib); break;
      case Op::matmul_f8:
      case Op::matmul_dgrad_f8: {
        const std::int64_t width = g.value(node.out(ir::operand::matmul_f8::y)).type.shape[2];
        const std::int64_t weight = g.local_elements(node.in(ir::operand::matmul_f8::w8));
        EXPECT_EQ(bytes, 32 * mib + (4 * width + 255) / 256 * 256 + (node.op == Op::matmul_f8 ? 0 : weight));
        break;
      }
      case Op::rms_norm_grad: EXPECT_EQ(bytes, 4 * (2 * 16 / 8) * 64); break;  // 8 rows a block
      case Op::attention: EXPECT_EQ(bytes, 256); break;
      case Op::attention_grad:  // 2 sequences of 16 tokens, 4 heads of 16: sums of rows, a tile of scores, dk
                                // and dv
        EXPECT_EQ(bytes, 256 + 2 * 4 * (4 * 16 + 2 * 64 * 128 + 4 * 16 * 16));
        break;
      case Op::linear_cross_entropy_grad: EXPECT_GT(bytes, 32 * mib + 2 * 300); break;
      default: continue;
    }
    seen.insert(node.op);
  }
  EXPECT_EQ(seen.size(), 9U);
}

/// Where a device has no product of such operands, both are decoded into bf16.
TEST(GpuScratch, OfFloat8IsThatOfTheDevicesProducts) {
  const ir::Graph g = test::small_step_with_float8();
  for (const ir::Node& node : g.nodes()) {
    if (!ir::is_float8_product(node.op)) continue;
    const std::int64_t x = g.local_elements(node.in(ir::operand::matmul_f8::x8)),
                       w = g.local_elements(node.in(ir::operand::matmul_f8::w8));
    EXPECT_EQ(gpu_scratch_query(gpu_with(0, 1e15))(g, node), 32 * mib + 2 * (x + w));
  }
}

/// Gradients that are read where they stand need no scratch. What goes as messages all the same needs as much
/// as without such reads: activations, sums over replicas, and sums that the library makes in its own order.
TEST(GpuScratch, OfGradientsThatAreReadIsNone) {
  const plan::ScratchQuery query = gpu_scratch_query(gpu_with(1e15, 0));
  for (const ShardMode mode : test::all_modes)
    for (const ReduceOrder order : {ReduceOrder::canonical, ReduceOrder::native}) {
      test::SmallModel small;
      small.replicas = small.tensor = 2;
      small.options.shard.mode = mode;
      small.options.shard.reduction = order;
      const ir::Graph messages = small.step();
      small.peer_reads = true;
      const ir::Graph reads = small.step();
      ASSERT_EQ(reads.nodes().size(), messages.nodes().size());
      int gradients = 0, others = 0;
      for (std::size_t i = 0; i < reads.nodes().size(); ++i) {
        const ir::Node &read = reads.nodes()[i], &sent = messages.nodes()[i];
        ASSERT_EQ(read.op, sent.op);
        if (!ir::is_collective(sent.op)) continue;
        const std::int64_t bytes = query(messages, sent);
        if (sent.op == Op::reduce_scatter && sent.lane == Lane::reduce) {
          ++gradients;
          EXPECT_GT(bytes, 0) << sent.module;
          EXPECT_EQ(query(reads, read), order == ReduceOrder::canonical ? 0 : bytes) << sent.module;
        } else {
          others += bytes > 0 ? 1 : 0;
          EXPECT_EQ(query(reads, read), bytes) << sent.module;
        }
      }
      EXPECT_GT(gradients, 0);
      EXPECT_EQ(others > 0, order == ReduceOrder::canonical) << "sums over replicas";
    }
}

/// A host that plans for a GPU asks as the GPU's build does, and for itself as its own libraries do.
TEST(GpuScratch, IsAskedForWhereAGpuIsPlannedFor) {
  if (!device_is_host()) GTEST_SKIP() << "this build asks its own libraries";
  const ir::Graph g = test::small_step_with_float8();
  Matmuls matmuls;
  const machine::Compute device = gpu_with(1e15, 0);
  const plan::ScratchQuery gpu = gpu_scratch_query(device), host = scratch_query(matmuls);
  bool differ = false;
  for (const ir::Node& node : g.nodes()) {
    EXPECT_EQ(scratch_query(matmuls, device)(g, node), gpu(g, node));
    EXPECT_EQ(scratch_query(matmuls, machine::Compute{})(g, node), host(g, node));
    differ = differ || gpu(g, node) != host(g, node);
  }
  EXPECT_TRUE(differ);
}

/// What cuDNN was seen to ask for on an H100 (docs/kernels.md, "Attention on CUDA"). Whether it would ask for
/// that of every shape is what tests/fakecuda/cudnn_plans_test.cpp holds it to.
TEST(GpuScratch, OfAttentionIsAsSeen) {
  const auto bytes = [](std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t kv_heads,
                        bool documents = false, bool deterministic = true) {
    kernels::AttentionShape s{batch, seq, heads, kv_heads, 128};
    s.deterministic = deterministic;
    return static_cast<std::int64_t>(kernels::gpu::attention_grad_bytes(s, DType::bf16, documents));
  };
  EXPECT_EQ(bytes(1, 8192, 8, 2) / mib, 1056);
  EXPECT_EQ(bytes(2, 8192, 32, 8) / mib, 1056) << "8 heads at a time";
  EXPECT_EQ(bytes(1, 32768, 32, 8) / mib, 2048 + 64) << "one head, and the gradients of keys of four";
  EXPECT_EQ(bytes(2, 8192, 32, 8, false, false) / mib, 2 * 32 * (4 + 4) + 2)
      << "dq, each head's dk and dv, and sums";
  EXPECT_EQ(bytes(2, 8192, 32, 8, true), std::int64_t{4} * 2 * 32 * 8192) << "documents go to `team`";
}

/// Of ranks that share sequences each asks for as much as the first, and for the gradients that half of the
/// keys get from its first run of queries.
TEST(GpuScratch, OfAttentionOfSectionsIsThatOfTheFirstPlace) {
  kernels::AttentionShape s{1, 16384, 8, 2, 128, 4};
  const std::int64_t scores = std::int64_t{2} * 8 * 2048 * 16384,
                     keys_of_heads = std::int64_t{4} * 8 * 16384 * 128, row_sums = std::int64_t{4} * 8 * 2048,
                     first_run = std::int64_t{2} * 8192 * 2 * 128;
  for (s.place = 0; s.place < s.context; ++s.place)
    EXPECT_EQ(static_cast<std::int64_t>(kernels::gpu::attention_grad_bytes(s, DType::bf16, false)),
              scores + keys_of_heads + row_sums + 256 + 2 * first_run);
  s.seq = 8 * 1000;
  EXPECT_EQ(static_cast<std::int64_t>(kernels::gpu::attention_grad_bytes(s, DType::bf16, false)),
            std::int64_t{4} * 8 * 1000 * 2)
      << "sections of no multiple of 64 go to `team`";
}

}  // namespace
}  // namespace weft::exec
