// The passes: graph in, graph out. Each file of this folder is one of them; pipeline.hpp lists them in order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.hpp"
#include "ir/graph.hpp"

namespace weft::passes {

/// Appends each round's backward behind its forward, and adds the rounds' unit gradients up in storages
/// "grad.UNIT" (f32): acc = ((g(0) + g(1)) + g(2)) + ... Reads: forward nodes that end in one cross_entropy a
/// round. Gradients are of the loss SUM.
ir::Graph autodiff(const ir::Graph& graph);

struct UpdateOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double clip = 1.0;  ///< maximum norm of the mean gradient; 0 turns clipping off
};
/// Names of the storages that the update adds.
inline constexpr const char* step_name =
    "step";  ///< u8 [sizeof(StepBlock)], written by the host before a step
inline constexpr const char* report_name =
    "report.step";  ///< f32 [4]: gradient norm, scale, mean loss, token count
/// Appends gradient norm, clipping and AdamW (Loshchilov & Hutter, 2019) over whole units.
ir::Graph update(const ir::Graph& graph, const UpdateOptions& options);

/// Replaces the head's matmul, the loss and, in a training step, their gradients by one node that computes
/// `rows` tokens at a time, so that the logits never exist whole. Gradients of the head's weight are then
/// summed over the chunks; with `rows` tokens or fewer on a rank all bits stay. A head whose logits are read
/// by anything else stays as it is.
ir::Graph head(const ir::Graph& graph, std::int64_t rows);

struct PrecisionOptions {
  DType params = DType::f32;     ///< parameters and activations: f32 or bf16
  DType grad_wire = DType::f32;  ///< parameter gradients before their fp32 sum
};
/// Lowers element types. Under bf16 parameters the forward reads storages "param.UNIT", which AdamW writes
/// beside its fp32 master. Statistics (norms, log-sum-exp, totals) stay fp32 or wider.
ir::Graph precision(const ir::Graph& graph, const PrecisionOptions& options);

enum class ShardMode : std::uint8_t { ddp, zero1, zero2, fsdp };
enum class Regather : std::uint8_t { always, never };
enum class Reduction : std::uint8_t { canonical, native };
struct ShardOptions {
  ShardMode mode = ShardMode::fsdp;
  std::string axis = "data";             ///< the mesh axis that batches and state are cut over
  Regather regather = Regather::always;  ///< fsdp: gather parameters again in backward
  Reduction reduction = Reduction::canonical;
};
/// Places values over the axis and inserts the collectives. With W ranks:
///   ddp    state whole on each rank; gradients reduce-scattered each round, gathered once
///   zero1  optimizer state cut; gradients reduced at the end of a round's backward; parameters gathered
///   after the update zero2  the same, each gradient reduced as soon as it is made fsdp   parameters cut,
///   too: gathered before use, and again in backward unless `regather` is never
/// All four give the same bits under the canonical reduction.
ir::Graph shard(const ir::Graph& graph, const ShardOptions& options);

/// Moves each parameter gather before the first use of the one `prefetch` gathers ahead of it, so that it
/// runs under that unit's compute. 0 leaves the graph as it is.
ir::Graph order(const ir::Graph& graph, int prefetch);

}  // namespace weft::passes
