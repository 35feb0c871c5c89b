#include "deck/schema.hpp"

#include <fmt/core.h>

#include <array>

namespace weft::deck {
namespace {

// Upper bounds catch a slip of the pen, and keep products of sizes within 63 bits.
constexpr double most_steps = 2147483647;  // the step block counts in int32
constexpr double most_sequences = 1 << 24;
constexpr double most_bytes = 1e18;

constexpr Range at_least(double low) {
  return {.low = low};
}
constexpr Range above(double low) {
  return {.low = low, .low_open = true};
}
constexpr Range between(double low, double high) {
  return {.low = low, .high = high};
}
constexpr Range fraction{.low = 0, .high = 1, .high_open = true};

constexpr std::array table_list{
    Table{"run", "The run as a whole."},
    Table{"model", "The shape of the Llama and its initial values."},
    Table{"model.rope_scaling",
          "Llama 3.1's stretch of the rotary frequencies, for contexts longer than those trained on first."},
    Table{"data", "Token files and the batch."},
    Table{"optimizer", "AdamW, clipping, and the learning rate over the steps."},
    Table{"parallel",
          "How ranks share the work. An axis `replica`, `tensor` or `context`, and a pipe with tied "
          "embeddings, "
          "add up in another order, which changes the losses' last digits. Nothing else here does."},
    Table{"pipeline",
          "How the stages of the mesh's axis `pipe` take turns. Nothing here changes the losses, and nothing "
          "has an effect without that axis."},
    Table{"precision", "Element types, and the order of sums over ranks. These settings change the losses."},
    Table{"schedule",
          "What the compiler's passes do. Only `accumulate` = once, and switching `fuse` or `head` "
          "off, change the losses, in their last digits."},
    Table{"checkpoint", "When to save, what to keep, where to start from."},
    Table{"log", "What is written while the run goes on."},
    Table{"debug", "Tools for chasing a difference between two runs."},
};

// A key's name is the member's own text, so that the two cannot differ.
#define WEFT_KEY(member) .path = #member, .slot = [](Deck& deck) { return Slot{&deck.member}; }

constexpr std::array key_list{
    Key{WEFT_KEY(run.name),
        .doc = "What the run is called; `runs/<name>` is its directory unless `run.dir` says otherwise."},
    Key{WEFT_KEY(run.dir), .derived_default = "runs/<run.name>",
        .doc = "The run's directory: resolved deck, metrics, log, checkpoints."},
    Key{WEFT_KEY(run.steps), .need = Need::required, .range = between(1, most_steps),
        .doc = "Optimizer steps of the whole run, those before a resume included."},
    Key{WEFT_KEY(run.seed), .range = at_least(0),
        .doc = "Seed of the initial weights, the shuffle and synthetic tokens. The same for any number of "
               "ranks."},
    Key{WEFT_KEY(run.walltime), .range = between(0, 1e9), .form = Form::duration,
        .doc = "Save and stop in time to end within this; 0: no limit."},
    Key{WEFT_KEY(run.memory_limit), .range = between(0, most_bytes), .form = Form::bytes,
        .doc = "Refuse to start when a rank's planned memory (state, arena and baseline; without the copy of "
               "`checkpoint.background`) is more than this; "
               "0: no "
               "limit but the host's."},
    Key{WEFT_KEY(run.collective_timeout), .range = between(0, 1e9), .form = Form::duration,
        .doc = "End the run with exit code 76, and name the rank that is missing, when a collective or a "
               "message has been under way for longer than this; 0: wait forever. Longer than what the "
               "slowest rank may need for a checkpoint beyond the others."},
    Key{WEFT_KEY(run.storage_timeout), .range = between(0, 1e9), .form = Form::duration,
        .doc =
            "End the run with exit code 76, and name the file, when storage has not answered one call of a "
            "checkpoint (an fsync, a read, a removal), or a read that verifies a token file, for longer "
            "than this; 0: wait forever."},

    Key{WEFT_KEY(model.dim), .need = Need::required, .range = between(2, 1 << 20),
        .doc = "Width of the residual stream (C). A multiple of `heads`; dim / heads, the width of a head, "
               "is even."},
    Key{WEFT_KEY(model.layers), .need = Need::required, .range = between(1, 65536),
        .doc = "Transformer blocks, each attention and feed-forward."},
    Key{WEFT_KEY(model.heads), .need = Need::required, .range = between(1, 65536), .doc = "Query heads (H)."},
    Key{WEFT_KEY(model.kv_heads), .range = between(1, 65536), .derived_default = "model.heads",
        .doc = "Key and value heads; fewer than `heads` is grouped-query attention. Divides `heads`."},
    Key{WEFT_KEY(model.ffn), .need = Need::required, .range = between(1, 1 << 24),
        .doc = "Inner width of the SwiGLU feed-forward (F)."},
    Key{WEFT_KEY(model.vocab), .need = Need::required, .range = between(2, 1 << 30),
        .doc = "Tokens the model knows (V); every token in the data is below it."},
    Key{WEFT_KEY(model.rope_theta), .range = above(1),
        .doc = "Base of the rotary frequencies: 500000 in Llama 3, 10000 in Llama 2."},
    Key{WEFT_KEY(model.norm_eps), .range = above(0), .doc = "Added to the mean square in RMSNorm."},
    Key{WEFT_KEY(model.tie_embeddings), .doc = "One matrix for the embedding and the output head."},
    Key{WEFT_KEY(model.init_std), .range = {.low = 0, .high = 1, .low_open = true},
        .doc = "Standard deviation of the initial weights (normal, mean 0); norm weights start at 1."},
    Key{WEFT_KEY(model.init),
        .doc =
            "Where a new run takes its weights from instead of drawing them: a directory of Hugging Face's "
            "(config.json, safetensors) or a checkpoint of Weft's. A run that has a checkpoint of its own "
            "continues from that."},

    Key{WEFT_KEY(model.rope_scaling.factor), .range = at_least(1),
        .doc = "Low frequencies are divided by this; 1: no scaling."},
    Key{WEFT_KEY(model.rope_scaling.low_freq_factor), .range = above(0),
        .doc = "Wavelengths above original_max_position / this are scaled in full."},
    Key{WEFT_KEY(model.rope_scaling.high_freq_factor), .range = above(0),
        .doc = "Wavelengths below original_max_position / this are left alone; between the two the change is "
               "smooth."},
    Key{WEFT_KEY(model.rope_scaling.original_max_position), .range = between(1, 1 << 24),
        .doc = "Context length before the stretch."},

    Key{WEFT_KEY(data.train),
        .doc = "Token files (.bin, made by `weft data tokenize`), relative to the working directory. A name "
               "with `*` or `?` stands for all files that match it, sorted."},
    Key{WEFT_KEY(data.valid),
        .doc = "Token files for validation, named as those of `train`; none: no validation."},
    Key{WEFT_KEY(data.synthetic),
        .doc = "Uniform random tokens instead of files, for benchmarks; `train` and `valid` are then not "
               "opened, and nothing is validated."},
    Key{WEFT_KEY(data.seq), .need = Need::required, .range = between(1, most_sequences),
        .doc = "Tokens a sequence (T)."},
    Key{WEFT_KEY(data.document_mask),
        .doc =
            "Several documents in one sequence do not see each other: attention stays within a document, and "
            "positions begin again with each. Documents end with the tokenizer's end-of-document token."},
    Key{WEFT_KEY(data.batch), .range = between(1, most_sequences),
        .doc = "Sequences a microbatch (B): what one rank computes at once. Memory grows with it."},
    Key{WEFT_KEY(data.global_batch), .need = Need::required, .range = between(1, most_sequences),
        .doc = "Sequences a step over all ranks, whatever their number. Each rank accumulates global_batch / "
               "(batch * data-parallel ranks) microbatches."},
    Key{WEFT_KEY(data.valid_every), .range = between(0, most_steps),
        .doc = "Validate every so many steps; 0: only at the end."},
    Key{WEFT_KEY(data.valid_sequences), .range = at_least(0),
        .doc = "Sequences in a validation; 0: all there are."},
    Key{WEFT_KEY(data.allow_change),
        .doc =
            "Set it when token files were changed on purpose between a checkpoint and the run that goes on "
            "from it. Otherwise such a run is refused, because its curve would mix two sets of data."},

    Key{WEFT_KEY(optimizer.lr), .need = Need::required, .range = above(0),
        .doc = "Peak learning rate, reached at the end of the warm-up."},
    Key{WEFT_KEY(optimizer.min_lr), .range = at_least(0),
        .doc = "Learning rate at the end of the decay; below `lr`."},
    Key{WEFT_KEY(optimizer.beta1), .range = fraction, .doc = "Decay of AdamW's first moment."},
    Key{WEFT_KEY(optimizer.beta2), .range = fraction, .doc = "Decay of AdamW's second moment."},
    Key{WEFT_KEY(optimizer.eps), .range = above(0), .doc = "Added to the root of the second moment."},
    Key{WEFT_KEY(optimizer.weight_decay), .range = at_least(0),
        .doc = "Decoupled weight decay; a step takes lr * weight_decay off each weight."},
    Key{WEFT_KEY(optimizer.clip), .range = at_least(0),
        .doc = "Largest norm of the whole gradient, scaled down to it when above; 0: no clipping."},
    Key{WEFT_KEY(optimizer.warmup), .range = between(0, most_steps),
        .doc = "Steps over which the learning rate rises linearly."},
    Key{WEFT_KEY(optimizer.decay),
        .doc =
            "Shape after the warm-up, as in PyTorch's schedulers: the first step of a fall still has `lr`, "
            "and the step behind the last would have `min_lr`. wsd: constant, then a linear fall over the "
            "last `decay_steps`."},
    Key{WEFT_KEY(optimizer.decay_steps), .range = between(0, most_steps),
        .doc =
            "wsd only: steps of the final fall, the first of which still has `lr`, so that 1 is no fall; 0: "
            "a tenth of `run.steps` (at least 1), or what the warm-up leaves."},
    Key{WEFT_KEY(optimizer.nonfinite),
        .doc = "What follows a step whose loss or gradient norm is NaN or infinite; it changes neither "
               "parameters nor moments. stop: the run ends. skip: it goes on with the next step. rollback: "
               "it goes back to the last checkpoint, and leaves out the data up to this step."},
    Key{WEFT_KEY(optimizer.nonfinite_limit), .range = between(1, most_steps),
        .doc = "Of skip and rollback: such steps in a row that are put up with; one more ends the run. Of "
               "rollback they are in a row until the run is past the last of them."},

    Key{WEFT_KEY(parallel.mode), .doc = "What is cut over the ranks: nothing (ddp), optimizer state (zero1), "
                                        "gradients too (zero2), parameters too (fsdp)."},
    Key{WEFT_KEY(parallel.mesh),
        .doc = "Axes of the device mesh, outermost first, as { name = ranks }; 0 "
               "ranks: all that remain. An axis that is left out has one rank, and "
               "`data` all that remain. The batch is cut over `data` and `replica`, state "
               "(`parallel.mode`) over `data`; `replica` repeats it: { replica = 0, "
               "data = 8 } cuts state over 8 neighbours. The layers are cut over "
               "`pipe` (`[pipeline]`), each sequence over `context`, which cuts state, too, "
               "and each layer, vocabulary and tokens over `tensor`, "
               "which must divide them, and should stand last, so that its ranks are neighbours "
               "(docs/mesh.md). \"auto\": the mesh that `weft advise` "
               "finds best, and what the deck leaves out of parallel.mode, pipeline.schedule, "
               "pipeline.chunks, data.batch and schedule.recompute."},

    Key{WEFT_KEY(pipeline.schedule),
        .doc = "gpipe: all microbatches forward, then all backward. 1f1b: forward and backward in turn, "
               "which holds fewer microbatches at a time. interleaved: 1f1b over several stages a rank "
               "(`chunks`), which idles less and sends more. zb_h1: 1f1b that makes weight gradients where "
               "a rank would wait. zbv: so, too, with two stages a rank (`chunks = 2`), the second ones "
               "from the last rank back to the first, which idles least."},
    Key{WEFT_KEY(pipeline.chunks), .range = between(1, 1024),
        .doc = "Stages a rank; zbv has 2, and more than 1 needs interleaved otherwise."},
    Key{WEFT_KEY(pipeline.layers), .range = between(0, 1 << 20),
        .doc = "Layers of each stage, the first to the last, as [3, 4, 4, 3]; the embedding stands before "
               "the first layer, the head behind the last. Only first and last stage may have none. Empty: "
               "balanced by the FLOPs of layers and head (zbv: of at most 512 layers)."},

    Key{WEFT_KEY(precision.params), .doc = "Type of parameters and activations in forward and backward. The "
                                           "optimizer's copy and all sums are f32."},
    Key{WEFT_KEY(precision.norms),
        .doc =
            "Type in which the weights of norms are gathered and read where `params = \"bf16\"`. They "
            "begin at 1, where steps of bf16 are 0.4 to 0.8 %, and forward would read 1 until a weight has "
            "moved by half a step. f32: gathered once a step, as one unit. bf16: as FSDP2 does, each with "
            "its layer."},
    Key{WEFT_KEY(precision.grad_wire),
        .doc = "Type in which gradients travel between ranks; sums are f32. bf16 needs `params = \"bf16\"`."},
    Key{WEFT_KEY(precision.reduction),
        .doc = "canonical: gradients are added in the order of the microbatches, so losses do not depend on "
               "the number of ranks. native: the library's own reduce-scatter."},
    Key{WEFT_KEY(precision.deterministic),
        .doc = "On a GPU: whether a run has the same bits each time. false lets cuDNN add the terms of "
               "attention's gradient in any order, which is faster and takes less memory. On the host there "
               "is nothing to gain, and it has no effect."},
    Key{WEFT_KEY(precision.float8),
        .doc = "Layers whose products with weights are made in Float8, as [\"layers.2-29\"]; \"layers.*\" "
               "leaves "
               "out the first and the last. Weights are gathered as bytes; their gradients are products of "
               "bf16. It needs `params = \"bf16\"`."},
    Key{WEFT_KEY(precision.float8_gradients),
        .doc = "The format of gradients of activations in these products; weights and activations are "
               "e4m3. Where each row has a scale of its own, the wider range of e5m2 is seldom needed, "
               "and its rounding is twice as coarse."},
    Key{WEFT_KEY(precision.float8_scales),
        .doc =
            "Scales of activations and their gradients in these products. rowwise: one for each token's row. "
            "tensorwise: one for all tokens of a rank's microbatch; Ada and Blackwell can multiply only such "
            "operands, but one large value costs all rows precision, and activations are read twice."},
    Key{WEFT_KEY(precision.f32_products),
        .doc = "Matmuls of f32 operands on processors with AMX. split: each operand is taken as three bf16 "
               "values that hold all its 24 bits, as accurate as f32 arithmetic and faster. plain: by f32 "
               "arithmetic, as everywhere else."},

    Key{WEFT_KEY(precision.head_rows), .range = between(0, 1 << 20),
        .doc = "Tokens of a microbatch whose logits exist at a time: the head and its loss are computed in "
               "chunks, and the head's gradient is summed over them in f32. 0: all."},

    Key{WEFT_KEY(schedule.disable),
        .doc = "Passes to switch off, by name: `fuse`, `head`, `recompute`, `quantize_first`, "
               "`residual`, `hoist`, `alternate`, `bucket`, `order`, `memory` (every "
               "buffer then has a place of its own), `rows` (an embedding's "
               "table and gradient are then sent whole), "
               "`share` (every rank then has its own copy of gathered "
               "parameters, and ranks of one host exchange messages)."},
    Key{WEFT_KEY(schedule.recompute),
        .doc = "What of the forward is computed again in backward instead of "
               "kept: none; full, all but what goes "
               "from module to module; selective, what `recompute_ops` names; "
               "budget, what costs the least time until the plan fits the limits (below)."},
    Key{WEFT_KEY(schedule.recompute_ops),
        .doc = "Of selective: operations, modules, or operations in modules, as `swiglu`, `@layers.*.ffn`, "
               "`matmul@layers.0-15.ffn`. Modules go by the beginning of their path; `*` is any component, "
               "`0-15` any of these numbers."},
    Key{WEFT_KEY(schedule.regather), .doc =
                                         "Whether backward gathers parameters again (always, less "
                                         "memory) or keeps them from forward (never, less traffic). auto, "
                                         "with `bucketing` = auto: keeps those of the last layers that fit. "
                                         "No matter where one host has all ranks of the data axis: they are "
                                         "read in place."},
    Key{WEFT_KEY(schedule.alternate),
        .doc =
            "Whether two microbatches take turns, so that one computes while activations of the other travel "
            "over the axes `tensor` and `context`: always; never; auto, with `bucketing` = auto: where a "
            "step "
            "is shorter by it. Two microbatches then take memory at a time, and share gathers of parameters. "
            "No matter in a pipe, and without those axes."},
    Key{WEFT_KEY(schedule.prefetch), .range = between(-1, 1024),
        .doc = "Buckets gathered ahead of the one being computed; 0: none; -1: as automatic bucketing finds "
               "best, "
               "otherwise 1."},
    Key{WEFT_KEY(schedule.prefetch_bytes), .range = between(0, most_bytes), .form = Form::bytes,
        .doc = "Bytes of parameters gathered ahead at most; 0: as many as `prefetch` says."},
    Key{WEFT_KEY(schedule.bucketing),
        .doc =
            "Which units share a collective: none, each has its own; manual, as `buckets` says; greedy, by "
            "SimpleFSDP's rules; auto, with the shortest step that a search finds, which also chooses "
            "`prefetch` and `reduce_delay` where they are -1. The last two go by `profile` and "
            "`memory_limit`."},
    Key{WEFT_KEY(schedule.memory_limit), .range = between(0, most_bytes), .form = Form::bytes,
        .doc = "Bytes of a rank that a plan may take, state and arena; 0: what `run.memory_limit` leaves, "
               "or else the machine has."},
    Key{WEFT_KEY(schedule.buckets),
        .doc = "Of manual, and of auto, which compares them with what it finds: beginnings of module paths, "
               "each of which must match a unit; units that match the same text share a bucket. "
               "`layers.*`: "
               "each block one, `layers.0-3`: these four blocks one, `layers.*.ffn`: each feed-forward one."},
    Key{WEFT_KEY(schedule.reduce_delay), .range = between(-1, 1024),
        .doc = "How many collectives later, of its lane, the memory that one reads is used again; 0: at "
               "once, so that "
               "compute waits for each; -1: as automatic bucketing finds best, otherwise 1."},
    Key{WEFT_KEY(schedule.accumulate),
        .doc =
            "each: every microbatch's gradients are reduced, and only shards are kept. once: a rank adds up "
            "its microbatches and reduces the sum in f32; changes the order of the sum, and so the losses."},
    Key{WEFT_KEY(schedule.cuda_graph),
        .doc = "auto: on a GPU, the second step is captured into a CUDA graph, and it and those after it are "
               "launches of that graph; steps that `log.trace_step` or `debug.hash_every` look into are not. "
               "off, or with a tool of Kokkos loaded: "
               "kernels and collectives are launched one by one."},
    Key{WEFT_KEY(schedule.peer_reads),
        .doc = "On GPUs: a reduce-scatter in canonical order reads the other ranks' gradients where they "
               "stand, in one kernel, with the same bits as the messages that are sent otherwise. It needs "
               "NVLink or PCIe between all ranks of the data axis and NCCL 2.28; a run without them says "
               "so. On the host it has no effect. It is new: no machine with several GPUs has run it."},
    Key{WEFT_KEY(schedule.profile),
        .doc = "Machine profile that plans are timed with: a file of `weft profile`, relative to the working "
               "directory, or a machine by its data sheet: `host`, `a100`, `h100`, `h100-96`, `h200`, "
               "`b200`, `gh200`, "
               "`xeon-8480`, `epyc-9654`; empty: this build's default."},

    Key{WEFT_KEY(checkpoint.every), .range = between(0, most_steps),
        .doc = "Save every so many steps; 0: none on the way."},
    Key{WEFT_KEY(checkpoint.keep), .range = between(1, 1e6),
        .doc = "Newest checkpoints kept; older ones are removed once a newer one is whole and was read "
               "back."},
    Key{WEFT_KEY(checkpoint.keep_every), .range = between(0, most_steps),
        .doc = "Checkpoints of steps that are multiples of it stay for good; 0: none. It needs `every`."},
    Key{WEFT_KEY(checkpoint.background), .doc = "Saves on the way copy the state during the next step, and "
                                                "are written while training goes on. Takes "
                                                "memory for the copy, 12 bytes a parameter over all ranks; "
                                                "where a rank lacks that, and with false, "
                                                "training waits for each save."},
    Key{WEFT_KEY(checkpoint.alignment), .range = between(1, 1 << 30), .form = Form::bytes,
        .doc = "Datasets of at least so many bytes begin at a multiple of it in their file: the stripe or "
               "block of the "
               "file system."},
    Key{WEFT_KEY(checkpoint.direct_io),
        .doc = "Write and read back without the page cache (O_DIRECT), where the "
               "file system can: training keeps the core that copies to the "
               "cache would take, and what is checked comes from storage."},
    Key{WEFT_KEY(checkpoint.initial), .doc = "Save the initial weights as step 0, before the first step."},
    Key{WEFT_KEY(checkpoint.final), .doc = "Save after the last step."},
    Key{WEFT_KEY(checkpoint.resume),
        .doc =
            "auto: continue from the newest checkpoint in `run.dir`, if any. never: start over; what "
            "`checkpoints` holds moves to `checkpoints.old`. Otherwise the path of a checkpoint that the run "
            "starts from; once it has saved, a job that is started again continues from its own newest."},

    Key{WEFT_KEY(log.every), .range = between(1, most_steps),
        .doc = "Steps between the lines of `log.txt`. `metrics.jsonl` and TensorBoard have every step."},
    Key{WEFT_KEY(log.tensorboard), .doc = "Write TensorBoard events."},
    Key{WEFT_KEY(log.trace_step), .range = between(0, most_steps),
        .doc = "The step whose timeline goes to `trace.json` (Perfetto), counted from 1; 0: none."},
    Key{WEFT_KEY(log.progress),
        .doc = "A progress bar with time left, loss and tokens/s; plain lines when not on a terminal. false: "
               "neither these nor the lines about plan, validations, saves and the end; `log.txt` has them, "
               "and warnings and errors are still told."},
    Key{WEFT_KEY(log.peak_tflops), .range = at_least(0),
        .doc = "Peak TFLOP/s of one rank's device in `precision.params`, which MFU is a share of; 0: no MFU. "
               "Of f32 on AMX: a sixth of bf16's peak."},
    Key{WEFT_KEY(log.spike), .range = at_least(0),
        .doc = "Say so when a loss is above the median of the last 50 by more than so many of their standard "
               "deviations (estimated from the median deviation, and at least 0.5 % of the median); 0: "
               "never."},

    Key{WEFT_KEY(debug.hash_every), .range = between(0, most_steps),
        .doc = "Every so many steps, hash the state into `metrics.jsonl` and every value of the step into "
               "`hashes.jsonl`, for `weft compare`; 0: never."},
    Key{WEFT_KEY(debug.nan),
        .doc = "locate: run a step whose loss or gradient norm is not finite once more, and name the first "
               "value in it that is not: rank, module and operation."},
};

#undef WEFT_KEY

}  // namespace

std::span<const Table> tables() {
  return table_list;
}
std::span<const Key> keys() {
  return key_list;
}

const Key* find_key(std::string_view path) {
  for (const auto& key : key_list)
    if (key.path == path) return &key;
  return nullptr;
}

const Table* find_table(std::string_view path) {
  for (const auto& table : table_list)
    if (table.path == path) return &table;
  return nullptr;
}

std::string range_text(const Range& range) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool low = range.low != -infinity;
  const bool high = range.high != infinity;
  if (low && high && !range.low_open && !range.high_open)
    return fmt::format("{:.15g} to {:.15g}", range.low, range.high);
  std::string text;
  if (low) text = fmt::format("{} {:.15g}", range.low_open ? "above" : "at least", range.low);
  if (low && high) text += " and ";
  if (high) text += fmt::format("{} {:.15g}", range.high_open ? "below" : "at most", range.high);
  return text;
}

std::string type_text(const Key& key) {
  Deck deck;
  return std::visit(
      [&key](auto* member) -> std::string {
        using T = std::remove_pointer_t<decltype(member)>;
        if constexpr (std::is_enum_v<T>)
          return fmt::format("one of {}", choice_list(T{}));
        else if constexpr (std::is_same_v<T, bool>)
          return "true or false";
        else if constexpr (std::is_same_v<T, std::int64_t>)
          return "integer";
        else if constexpr (std::is_same_v<T, double>)
          return key.form == Form::duration ? "duration" : key.form == Form::bytes ? "bytes" : "number";
        else if constexpr (std::is_same_v<T, std::string>)
          return "string";
        else if constexpr (std::is_same_v<T, std::vector<std::string>>)
          return "string or array of strings";
        else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
          return "array of integers";
        else
          return "table of integers";
      },
      key.slot(deck));
}

std::vector<std::string_view> words_of(const Key& key) {
  Deck deck;
  return std::visit(
      [](auto* member) -> std::vector<std::string_view> {
        using T = std::remove_pointer_t<decltype(member)>;
        std::vector<std::string_view> words;
        if constexpr (std::is_enum_v<T>)
          for (const auto& [value, name] : choices(T{})) words.push_back(name);
        if constexpr (std::is_same_v<T, bool>) words = {"true", "false"};
        return words;
      },
      key.slot(deck));
}

}  // namespace weft::deck
