// The passes: each takes a graph, gives a new one, and has a file in this folder. pass_list.hpp lists them
// in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/choices.hpp"
#include "base/dtype.hpp"
#include "ir/graph.hpp"
#include "pipe/pipeline_schedule.hpp"

namespace weft::passes {

/// The stages of a pipe that one of its ranks has.
struct StageOptions {
  PipelineKind kind = PipelineKind::one_f_one_b;
  pipe::Sizes sizes;  ///< how many ranks, chunks and microbatches the pipe has
  int rank = 0;       ///< this rank's place on the pipe
  /// The index of each stage's first unit, in the order of the model.
  std::vector<std::size_t> first_units;
  /// A unit of the model that another rank has, too.
  struct Twin {
    std::size_t unit = 0;
    int place = 0;      ///< the other rank's place on the pipe
    bool copy = false;  ///< the unit belongs to the other rank's stage
  };
  std::vector<Twin> twins;

  StagePlaces places() const { return {sizes.ranks, folds(kind)}; }
  /// The stage that has the model's unit.
  int stage_of_unit(std::size_t unit) const;
  /// Whether the stage is one of this rank's.
  bool is_own(int stage) const { return stage >= 0 && places().place(stage) == rank; }
  /// The twin of a unit; null when it has none.
  const Twin* twin_of(std::size_t unit) const;
  /// Whether this rank has the unit.
  bool has_unit(std::size_t unit) const { return is_own(stage_of_unit(unit)) || twin_of(unit) != nullptr; }
};
/// Keeps the nodes of this rank's stages, and only their units and storages. A value that the next stage
/// reads is sent there, and received from the stage before, unless a rank has both. Sums of losses stay in
/// all stages. Parameters that two stages read are twins: `update` adds their gradients up. Throws
/// std::logic_error where a value would have to skip a stage.
ir::Graph stage(const ir::Graph& graph, const StageOptions& options);
/// Puts the nodes of a training step, or of a forward alone, into the order of the pipeline schedule. All
/// sums keep their order. A message is asked for while what makes it is computed.
ir::Graph interleave(const ir::Graph& graph, const StageOptions& options);

/// Cuts a model over the tensor axis of the mesh (Shoeybi et al., 2019; Korthikanti et al., 2022). Shapes are
/// those of one rank from then on, and the collectives are nodes like others: autodiff makes each one's
/// derivative. A rank has part of the rows of each matrix as it is stored, so of the outputs, or of the
/// inputs where it is [in, out]. Between the products, activations are cut by rows, the runs of B T tokens;
/// they are gathered for a product by [out, in], and the terms of one by [in, out] are reduce-scattered. The
/// vocabulary is cut as the table and the head's weight are. Throws std::logic_error on an operation for
/// which the pass has no rule.
ir::Graph partition(const ir::Graph& graph);
/// The units of a rank: those given, with a part of each parameter. What all ranks have whole is in a unit
/// "whole" of its own, the first (of units with Unit::float8 or Unit::f32_norms, only their norms), and what
/// some neighbours have alike is in a unit behind the others of its module ("layers.0.attn.copies").
std::vector<Unit> partitioned(const std::vector<Unit>& units, int ranks);

/// Makes one matmul of those of q, k and v, whose result is split while it is rotated (rope_split), and one
/// of those of gate and up. It does so where the weights stand one behind the other in their unit, and
/// nothing else reads the results. The gradient of their operand is then one sum in fp32 instead of sums that
/// are rounded in between.
ir::Graph fuse(const ir::Graph& graph);

/// Makes attention serve sequences that are cut over the context axis of the mesh. A rank has two sections of
/// each sequence as if they were sequences (model::Batch), and everything but attention treats them alike.
/// Attention reads its own queries, and keys and values of the whole sequences, which are gathered and put in
/// order (Llama 3: Grattafiori et al., 2024, section 3.3.2). autodiff makes the derivatives.
ir::Graph context(const ir::Graph& graph);

/// Appends each round's backward behind its forward, and adds the rounds' unit gradients up in storages
/// "grad.UNIT" (f32): acc = ((g(0) + g(1)) + g(2)) + ... The graph must hold forward nodes that end in one
/// cross_entropy a round, or in values that are sent to the next stage of a pipe. Gradients are of the loss
/// SUM.
ir::Graph autodiff(const ir::Graph& graph);

struct UpdateOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double clip = 1.0;  ///< maximum norm of the mean gradient; 0 turns clipping off
};
/// The storage of the step block: u8 [sizeof(StepBlock)], which the host writes before a step.
inline constexpr const char* step_name = "step";
/// The storage of the report: f32 [4] with gradient norm, clip scale, mean loss and token count.
inline constexpr const char* report_name = "report.step";
/// Appends gradient norm, clipping and AdamW (Loshchilov & Hutter, 2019) over whole units.
ir::Graph update(const ir::Graph& graph, const UpdateOptions& options);

/// Replaces the head's matmul, the loss and, in a training step, their gradients by one node that computes
/// `rows` tokens at a time, so that the logits never exist whole. Gradients of the head's weight are then
/// summed over these chunks of tokens; with `rows` tokens or fewer on a rank all bits stay the same. A head
/// whose logits are read by anything else stays as it is.
ir::Graph head(const ir::Graph& graph, std::int64_t rows);

struct PrecisionOptions {
  DType params = DType::f32;     ///< parameters and activations: f32 or bf16
  DType grad_wire = DType::f32;  ///< parameter gradients before their fp32 sum
  GradientFormat float8_gradients = GradientFormat::e4m3;
  Float8Scales float8_scales = Float8Scales::rowwise;
};
/// Chooses element types. Under bf16 parameters the forward reads storages "param.UNIT", which AdamW writes
/// beside its fp32 master; of a unit with Unit::f32_norms, which has nothing but norms here, it reads the
/// master. Statistics (norms, log-sum-exp, totals) stay fp32 or wider.
ir::Graph precision(const ir::Graph& graph, const PrecisionOptions& options);

/// Moves norms into one unit of all layers, "whole": those of units whose products are made in Float8
/// (Unit::float8), because their elements stay wider, and those that are read as fp32 (Unit::f32_norms)
/// beside matrices in bf16. The pass partition has done so already where there is a tensor axis.
ir::Graph norms_apart(const ir::Graph& graph);
/// The units that this pass makes of those given.
std::vector<Unit> with_norms_apart(const std::vector<Unit>& units);

/// Makes products of activations, and of their gradients, with the matrices of units with Unit::float8 in
/// Float8 (Micikevicius et al., 2022): weights and what forward multiplies are e4m3, gradients as asked for.
/// Each row of an operand has a scale, and so have all matrices of a module that are stored the same way
/// round; scales are powers of two, made anew for each operand. The weights are made of their masters once a
/// step, before forward, and gathered as bytes. Gradients of weights stay products of bf16. It comes behind
/// `precision`.
ir::Graph float8(const ir::Graph& graph, GradientFormat gradients, Float8Scales scales);

/// Which operations of the forward are computed again in backward: one kind, or all; in modules whose path
/// begins as matched_part (module_path.hpp) says.
struct RecomputeRule {
  std::optional<ir::Op> op;
  std::string module;  ///< a pattern, "layers.*.ffn"; empty: in all modules
};
/// Reads a rule: "swiglu", "matmul@layers.*.ffn" or "@layers.3.attn". Throws Error(bad_input) on an unknown
/// operation.
RecomputeRule recompute_rule(const std::string& text);
std::string text_of(const RecomputeRule& rule);

struct RecomputeOptions {
  Recompute what = Recompute::none;              ///< any but `budget`
  std::vector<RecomputeRule> rules;              ///< what `selective` computes again
  std::string place = "schedule.recompute_ops";  ///< where the rules stand in the deck, for messages
  /// Whether the graph is a whole model, in which each rule must name something.
  bool whole_model = true;
};
/// Lets backward read copies of forward values. They are made again just before their first use, from the
/// values that are kept, and have the same bits. Recompute::full keeps only what goes from module to module.
/// Throws Error(bad_input) on a rule that names nothing of a whole model.
ir::Graph recompute(const ir::Graph& graph, const RecomputeOptions& options);

/// Quantises rows before the tensor axis gathers them, where nothing but products in Float8 reads them: half
/// the bytes are sent, and scales. The bits are the same, because each row has a scale of its own. In a
/// training step these are the gathers of forward that backward makes again for the gradients of weights.
ir::Graph quantize_first(const ir::Graph& graph);

/// Joins an add and the norm that reads its result, where they follow each other, so that memory is passed
/// over once.
ir::Graph residual(const ir::Graph& graph);

struct HoistOptions {
  int depth = 2;  ///< how many weight gradients are put off at most; 0: none
  int each = 1;   ///< how many of them are put behind each collective
};
/// Hides collectives between activations, those over the tensor and the context axis, under the products that
/// make weight gradients. Nothing else in a backward waits for these, so some are put off until something
/// would wait for such a collective. What they read is kept as long.
ir::Graph hoist(const ir::Graph& graph, const HoistOptions& options);

/// How long the turns of two microbatches are.
enum class Turns : std::uint8_t {
  none,   ///< they do not take turns
  whole,  ///< from one collective between activations to the next
  half    ///< the same, but what is long between two of them has two turns
};
/// Lets two microbatches take turns: forward and forward, then backward and backward. While activations of
/// one travel, the other computes. A tensor axis has short turns, norms between two collectives, which then
/// come between two halves of the other's products. All sums keep their order. Two microbatches are under way
/// at a time; of a unit that both gather there is one gather. An odd round is left alone.
ir::Graph alternate(const ir::Graph& graph, Turns turns);

struct ShardOptions {
  ShardMode mode = ShardMode::fsdp;
  /// In mode fsdp, backward gathers parameters again. Only those of this many of the last units stay from
  /// forward.
  int keep_units = 0;
  ReduceOrder reduction = ReduceOrder::canonical;
  Accumulation accumulation = Accumulation::each;
  bool alternate = false;  ///< two rounds take turns (the pass alternate)
};
/// Places values over the mesh and inserts the collectives. Over the ranks of the data axis, the mode cuts:
/// - ddp: nothing. Gradients are reduce-scattered in each round, and their sums gathered once.
/// - zero1: the optimizer state. Gradients are reduced at the end of each round's backward, and parameters
///   gathered after the update.
/// - zero2: as zero1, but each gradient is reduced as soon as it is made.
/// - fsdp: parameters, too. They are gathered before their use, and again in backward.
/// All four modes give the same bits under the canonical reduction. A replica axis cuts the batch further and
/// repeats the rest: after the last round, each sum of a unit's gradient is all-reduced over it, on a lane of
/// its own.
ir::Graph shard(const ir::Graph& graph, const ShardOptions& options);

/// The bucket of each unit, by a number. Units that follow each other and have the same number share
/// collectives.
struct Buckets {
  std::vector<int> forward, backward;  ///< buckets of the gathers
  std::vector<int> reduce;  ///< buckets of the reduce-scatters, and of the all-reduces over replicas
};
/// Makes buckets by the beginnings of module paths (matched_part). Units for which a pattern gives the same
/// text share a bucket: with "layers.*" a block is one, with "layers.4-7" four blocks are. A unit that no
/// pattern matches has its own bucket.
std::vector<int> buckets_by_path(const std::vector<Unit>& units, const std::vector<std::string>& patterns);

/// Makes one collective of all those in a bucket: one launch, which sends the messages of all members at
/// once. A gather stands where its first member stood, a reduction where its last one did.
ir::Graph bucket(const ir::Graph& graph, const Buckets& buckets);

struct OrderOptions {
  int prefetch = 1;                 ///< how many gathers run ahead of the one in use
  std::int64_t prefetch_bytes = 0;  ///< bytes that may be gathered ahead; 0: as many as `prefetch` says
  /// How many more collectives of a lane begin before what one of them reads may be overwritten.
  int delay = 1;
};
/// Moves each parameter gather before the first use of the one that stands `prefetch` gathers earlier, so
/// that it runs under that unit's compute. Also says how long the operands of a collective are held, so that
/// compute does not wait for it.
ir::Graph order(const ir::Graph& graph, const OrderOptions& options);

/// Marks the collectives that the ranks of a team make in the memory that they share; `teams` says how many
/// ranks these are. Over the data axis they are gathers, whose result then exists once a team, and
/// reduce-scatters, which read the neighbours' gradients where they stand. Where a team has all slices
/// (ops::gathered_in_place), a unit is gathered once a step. Over the tensor and the context axis both read
/// the neighbours' activations where they stand.
ir::Graph share(const ir::Graph& graph, const Teams& teams);

/// Marks the gathers of an embedding's table, and the reductions of its gradient, that may leave out the rows
/// that no token of the round names. Attr::used says which share of the rows would be named if tokens were
/// drawn evenly. A table that the head also reads stays as it is.
ir::Graph rows(const ir::Graph& graph);

}  // namespace weft::passes
