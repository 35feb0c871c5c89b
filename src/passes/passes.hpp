// The passes: graph in, graph out. Each file of this folder is one of them; pipeline.hpp lists them in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/choices.hpp"
#include "base/dtype.hpp"
#include "ir/graph.hpp"

namespace weft::passes {

/// One matmul for q, k and v, split while they are rotated (rope_split), and one for gate and up, where the
/// weights stand one behind the other in their unit and nothing else reads the results. The gradient of their
/// operand is then one sum in fp32 instead of sums that are rounded in between.
ir::Graph fuse(const ir::Graph& graph);

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
/// Chooses element types. Under bf16 parameters the forward reads storages "param.UNIT", which AdamW writes
/// beside its fp32 master. Statistics (norms, log-sum-exp, totals) stay fp32 or wider.
ir::Graph precision(const ir::Graph& graph, const PrecisionOptions& options);

/// What of the forward is computed again in backward: an operation, or all; in modules whose path begins as
/// matched_part says (module_path.hpp).
struct RecomputeRule {
  std::optional<ir::Op> op;
  std::string module;  ///< "layers.*.ffn"; empty: in all
};
/// From "swiglu", "matmul@layers.*.ffn" or "@layers.3.attn". Throws Error(bad_input) on an unknown operation.
RecomputeRule recompute_rule(const std::string& text);
std::string text_of(const RecomputeRule& rule);

struct RecomputeOptions {
  Recompute what = Recompute::none;              ///< not budget
  std::vector<RecomputeRule> rules;              ///< of selective
  std::string place = "schedule.recompute_ops";  ///< where they stand, for messages
};
/// Lets backward read copies of forward values that are made again just before their first use, from what is
/// kept. full keeps what goes from module to module only. The copies have the bits of what they stand for.
/// Throws Error(bad_input) on a rule that names nothing.
ir::Graph recompute(const ir::Graph& graph, const RecomputeOptions& options);

/// Makes one pass over memory of an add and the norm that reads its result, where they follow each other.
ir::Graph residual(const ir::Graph& graph);

struct ShardOptions {
  ShardMode mode = ShardMode::fsdp;
  /// fsdp: backward gathers parameters again, but for those of so many of the last units, which stay from
  /// forward.
  int keep_units = 0;
  ReduceOrder reduction = ReduceOrder::canonical;
  Accumulation accumulation = Accumulation::each;
};
/// Places values over the mesh and inserts the collectives. With W ranks on the data axis:
///   ddp    state whole on each rank; gradients reduce-scattered each round, gathered once
///   zero1  optimizer state cut; gradients reduced at the end of a round's backward; parameters gathered
///   after the update zero2  the same, each gradient reduced as soon as it is made fsdp   parameters cut,
///   too: gathered before use, and again in backward
/// All four give the same bits under the canonical reduction. A replica axis cuts the batch further and
/// repeats the rest: after the last round each sum of a unit's gradient is all-reduced over it, on a lane of
/// its own.
ir::Graph shard(const ir::Graph& graph, const ShardOptions& options);

/// By unit, the number of its bucket; of units that follow each other, those with one number share
/// collectives.
struct Buckets {
  std::vector<int> forward, backward;  ///< gathers
  std::vector<int> reduce;             ///< reduce-scatters, and all-reduces over replicas
};
/// Buckets from the beginnings of module paths (matched_part): units that match the same text share a bucket
/// ("layers.*": a block, "layers.4-7": four blocks); one that matches nothing has its own.
std::vector<int> buckets_by_path(const std::vector<Unit>& units, const std::vector<std::string>& patterns);

/// Makes one collective of each bucket's: one launch, messages of all members at once. A gather stands where
/// its first member stood, a reduction where its last did.
ir::Graph bucket(const ir::Graph& graph, const Buckets& buckets);

struct OrderOptions {
  int prefetch = 1;                 ///< gathers ahead of the one in use
  std::int64_t prefetch_bytes = 0;  ///< bytes that may be gathered ahead; 0: as many as `prefetch` says
  int delay = 1;  ///< later collectives of its lane before what a collective reads may be overwritten
};
/// Moves each parameter gather before the first use of the one `prefetch` gathers ahead of it, so that it
/// runs under that unit's compute, and says how long what a collective reads is held, so that compute does
/// not wait for it.
ir::Graph order(const ir::Graph& graph, const OrderOptions& options);

/// Marks the collectives that ranks of one host make in memory that they share, `team` of them: gathers whose
/// result then exists once a team, and reduce-scatters that read the neighbours' gradients where they stand.
/// Where a team has all slices (ops::gathered_in_place) a unit is gathered once a step.
ir::Graph share(const ir::Graph& graph, int team);

/// Marks the gathers of an embedding's table, and the reductions of its gradient, that may leave out the rows
/// that no token of the round names (Attr::used: the share that tokens drawn evenly would name). A table that
/// the head reads, too, stays as it is.
ir::Graph rows(const ir::Graph& graph);

}  // namespace weft::passes
