// Tests every kind of mistake in a deck, with the exact line that the user reads.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "unit/deck/example.hpp"

namespace weft::test {
namespace {

struct LineMistake {
  const char* name;
  int line;
  const char* text;
  const char* message;
};

void PrintTo(const LineMistake& m, std::ostream* out) {
  *out << m.name;
}

class OneLine : public testing::TestWithParam<LineMistake> {};

TEST_P(OneLine, SaysWhereWhatWhy) {
  const auto& m = GetParam();
  EXPECT_EQ(mistake(with_line(m.line, m.text)), m.message);
}

const LineMistake structure[] = {
    {"unknown_table", 15, "[modle]\nx = 1",
     "d.toml:15: modle: unknown table (tables: run, model, model.rope_scaling, data, optimizer, parallel, "
     "pipeline, "
     "precision, schedule, "
     "checkpoint, log, debug); did you mean 'model'?"},
    {"table_of_another_trainer", 15, "[lr_scheduler]\nwarmup_steps = 1",
     "d.toml:15: lr_scheduler: unknown table (tables: run, model, model.rope_scaling, data, optimizer, "
     "parallel, pipeline, precision, "
     "schedule, checkpoint, log, debug); did you mean 'optimizer'?"},
    {"table_of_torchtitan", 15, "[activation_checkpoint]\nmode = \"full\"",
     "d.toml:15: activation_checkpoint: unknown table (tables: run, model, model.rope_scaling, data, "
     "optimizer, parallel, pipeline, precision, "
     "schedule, checkpoint, log, debug); did you mean 'schedule'?"},
    {"key_that_weft_has_none_for", 14, "lr = 1e-3\nname = \"AdamW\"",
     "d.toml:15: optimizer.name: unknown key (keys of [optimizer]: lr, min_lr, beta1, beta2, eps, "
     "weight_decay, clip, warmup, "
     "decay, decay_steps, nonfinite, nonfinite_limit)"},
    {"unknown_key", 14, "lr = 1e-3\nwarmpu = 3",
     "d.toml:15: optimizer.warmpu: unknown key (keys of [optimizer]: lr, min_lr, beta1, beta2, eps, "
     "weight_decay, clip, warmup, "
     "decay, decay_steps, nonfinite, nonfinite_limit); did you mean 'optimizer.warmup'?"},
    {"alias_stands_for_the_missing_key", 14, "learning_rate = 1e-3",
     "d.toml:14: optimizer.learning_rate: unknown key (keys of [optimizer]: lr, min_lr, beta1, beta2, eps, "
     "weight_decay, clip, "
     "warmup, decay, decay_steps, nonfinite, nonfinite_limit); did you mean 'optimizer.lr'?"},
    {"key_of_another_table", 2, "steps = 10\nvocab_size = 3",
     "d.toml:3: run.vocab_size: unknown key (keys of [run]: name, dir, steps, seed, walltime, memory_limit, "
     "collective_timeout, storage_timeout); "
     "did you mean "
     "'model.vocab'?"},
    {"nothing_near", 2, "steps = 10\nzzzzzzz = 3",
     "d.toml:3: run.zzzzzzz: unknown key (keys of [run]: name, dir, steps, seed, walltime, memory_limit, "
     "collective_timeout, storage_timeout)"},
    {"key_without_a_table", 1, "lr = 3\n[run]",
     "d.toml:1: lr: unknown key (a key stands in a table: run, model, model.rope_scaling, data, optimizer, "
     "parallel, pipeline, precision, "
     "schedule, checkpoint, log, debug); did you mean 'optimizer.lr'?"},
    {"subtable_key", 15, "[model.rope_scaling]\nlow_freq = 2",
     "d.toml:16: model.rope_scaling.low_freq: unknown key (keys of [model.rope_scaling]: factor, "
     "low_freq_factor, "
     "high_freq_factor, original_max_position); did you mean 'model.rope_scaling.low_freq_factor'?"},
    {"value_for_a_table", 1, "precision = \"bf16\"\n[run]",
     "d.toml:1: precision: the string \"bf16\" is not a table (its keys stand below [precision])"},
    {"array_of_tables", 15, "[[log]]\nevery = 2",
     "d.toml:15: log: an array is not a table (its keys stand below [log])"},
    {"missing_key", 4, "",
     "d.toml:3: model.dim: missing (required: Width of the residual stream (C). A multiple of `heads`; dim / "
     "heads, "
     "the width of a head, is even.)"},
    {"missing_table", 13, "",
     "d.toml:14: data.lr: unknown key (keys of [data]: train, valid, synthetic, seq, document_mask, batch, "
     "global_batch, "
     "valid_every, "
     "valid_sequences, allow_change); did you mean 'optimizer.lr'?"},
    {"key_twice", 7, "ffn = 96\ndim = 65",
     "d.toml:8: model.dim: given twice (this key already stands on line 4); keep one"},
    {"table_twice", 15, "[run]\nseed = 3",
     "d.toml:15: run: given twice (this table already stands on line 1); keep one"},
    {"syntax", 4, "dim = 64 65",
     "d.toml:4: not valid TOML: expected a comment or whitespace, saw '6' (column 10, while reading: "
     "key-value pair)"},
    {"open_string", 4, "dim = \"64",
     "d.toml:4: not valid TOML: unescaped control characters other than TAB (U+0009) are "
     "explicitly prohibited (column 10, while reading: string)"},
    {"no_quotes", 15, "[parallel]\nmode = zero1",
     "d.toml:16: not valid TOML: could not determine value type (column 8, while reading: value); text needs "
     "quotes: \"...\""},
    {"nested_arrays", 15, "[data]\ntrain = [[[[[[[[[[[[[[[[[[",
     "d.toml:16: nested too deeply (keys stand below [table], one a line)"},
    {"more_than_64_bits", 2, "steps = 99999999999999999999",
     "d.toml:2: not valid TOML: '99999999999999999999' is not representable in 64 bits (column 29, while "
     "reading: decimal integer); the number is too large"},
    {"more_than_a_double", 14, "lr = 1e400",
     "d.toml:14: not valid TOML: '1e400' could not be interpreted as a value (column 11, while reading: "
     "floating-point); the number is too large"},
    {"not_utf8", 4, "dim = \xff",
     "d.toml:4: not valid TOML: Encountered invalid utf-8 sequence (column 6, while reading: TOML)"},
};

const LineMistake values[] = {
    {"string_for_integer", 4, "dim = \"64\"",
     "d.toml:4: model.dim: the string \"64\" is not an integer (2 to 1048576); did you mean 64?"},
    {"float_for_integer", 2, "steps = 1e3",
     "d.toml:2: run.steps: the number 1000 is not an integer (1 to 2147483647); did you mean 1000?"},
    {"fraction_for_integer", 2, "steps = 1e-3",
     "d.toml:2: run.steps: the number 0.001 is not an integer (1 to 2147483647)"},
    {"boolean_for_integer", 4, "dim = true",
     "d.toml:4: model.dim: the boolean true is not an integer (2 to 1048576)"},
    {"table_for_integer", 15, "[model.rope_scaling.original_max_position]",
     "d.toml:15: model.rope_scaling.original_max_position: a table is not an integer (1 to 16777216)"},
    {"string_for_number", 14, "lr = \"1e-3\"",
     "d.toml:14: optimizer.lr: the string \"1e-3\" is not a number (above 0); did you mean 1e-3?"},
    {"date_for_number", 14, "lr = 1979-05-27",
     "d.toml:14: optimizer.lr: the date 1979-05-27 is not a number (above 0)"},
    {"nan", 14, "lr = nan", "d.toml:14: optimizer.lr: nan is not a finite number"},
    {"infinity", 14, "lr = -inf", "d.toml:14: optimizer.lr: -inf is not a finite number"},
    {"document_mask_of_synthetic", 10, "synthetic = true\ndocument_mask = true",
     "d.toml:11: data.document_mask: synthetic tokens are no documents; leave it out, or name token files in "
     "data.train"},
    {"string_for_boolean", 10, "synthetic = \"yes\"",
     "d.toml:10: data.synthetic: the string \"yes\" is not true or false; did you mean true?"},
    {"integer_for_boolean", 10, "synthetic = 0",
     "d.toml:10: data.synthetic: the integer 0 is not true or false; did you mean false?"},
    {"integer_for_string", 1, "[run]\nname = 3",
     "d.toml:2: run.name: the integer 3 is not a string; did you mean \"3\"?"},
    {"control_character", 1, "[run]\nname = \"a\\nb\"",
     "d.toml:2: run.name: contains a control character (names and paths are plain text)"},
    {"list_of_numbers", 10, "train = [\"a\", 3]",
     "d.toml:10: data.train: the integer 3 in the array is not a string"},
    {"number_for_list", 10, "train = 3",
     "d.toml:10: data.train: the integer 3 is not a string or an array of strings"},
    {"duration", 1, "[run]\nwalltime = \"2 hours\"",
     "d.toml:2: run.walltime: the string \"2 hours\" is not a duration (seconds, \"2h30m\", \"90s\", "
     "\"HH:MM:SS\" or \"D-HH:MM:SS\")"},
    {"negative_duration", 1, "[run]\nwalltime = -1",
     "d.toml:2: run.walltime: -1 is out of range (0 to 1000000000)"},
    {"zero", 5, "layers = 0", "d.toml:5: model.layers: 0 is out of range (1 to 65536)"},
    {"too_many_bytes", 2, "steps = 10\nmemory_limit = 1e30",
     "d.toml:3: run.memory_limit: 1e+30 is out of range (0 to 1e+18)"},
    {"too_large", 5, "layers = 65537", "d.toml:5: model.layers: 65537 is out of range (1 to 65536)"},
    {"negative", 14, "lr = -1e-3", "d.toml:14: optimizer.lr: -0.001 is out of range (above 0)"},
    {"open_end", 14, "lr = 1e-3\nbeta2 = 1.0",
     "d.toml:15: optimizer.beta2: 1 is out of range (at least 0 and below 1)"},
    {"bad_choice", 14, "lr = 1e-3\ndecay = \"cosin\"",
     "d.toml:15: optimizer.decay: 'cosin' is not one of the choices (constant, linear, cosine, wsd); did you "
     "mean 'cosine'?"},
    {"choice_of_another_trainer", 15, "[precision]\nparams = \"bfloat16\"",
     "d.toml:16: precision.params: 'bfloat16' is not one of the choices (f32, bf16); did you mean 'bf16'?"},
    {"pipeline_of_another_trainer", 15, "[pipeline]\nschedule = \"ZBVZeroBubble\"",
     "d.toml:16: pipeline.schedule: 'ZBVZeroBubble' is not one of the choices (gpipe, 1f1b, interleaved, "
     "zb_h1, "
     "zbv); did you mean 'zbv'?"},
    {"one_stage_of_a_v", 15, "[pipeline]\nschedule = \"zbv\"",
     "d.toml: pipeline.chunks: zbv has two stages a rank, not 1; set pipeline.chunks = 2, or another "
     "pipeline.schedule"},
    {"chunks_of_a_straight_pipe", 15, "[pipeline]\nchunks = 2",
     "d.toml:16: pipeline.chunks: 2 stages a rank need another schedule than 1f1b; set pipeline.schedule = "
     "\"interleaved\", or chunks = 1"},
    {"float8_beside_f32", 15, "[precision]\nfloat8 = [\"layers.*\"]",
     "d.toml:16: precision.float8: needs bf16 beside it (what is not in 8 bits is in bf16); set "
     "precision.params = \"bf16\""},
    {"float8_of_nothing", 15, "[precision]\nparams = \"bf16\"\nfloat8 = [\"\"]",
     "d.toml:17: precision.float8: an empty pattern (layers are named as \"layers.*\")"},
    {"norms_in_bf16_beside_f32", 15, "[precision]\nnorms = \"bf16\"",
     "d.toml:16: precision.norms: bf16 needs bf16 parameters (no weight is narrower than what it is "
     "multiplied with); set precision.params = \"bf16\""},
    {"gradients_of_f32_in_bf16", 15, "[precision]\ngrad_wire = \"bf16\"",
     "d.toml:16: precision.grad_wire: bf16 needs bf16 parameters (gradients of f32 products are f32); set "
     "precision.params = \"bf16\""},
    {"format_of_nothing", 15, "[precision]\nfloat8_gradients = \"e5m2\"",
     "d.toml:16: precision.float8_gradients: e5m2 has no effect (precision.float8 names no layer); give "
     "some, or "
     "remove the key"},
    {"scales_of_nothing", 15, "[precision]\nfloat8_scales = \"tensorwise\"",
     "d.toml:16: precision.float8_scales: tensorwise has no effect (precision.float8 names no layer); give "
     "some, or remove the key"},
    {"real_dtype_out_of_place", 15, "[precision]\nparams = \"f64\"",
     "d.toml:16: precision.params: 'f64' is not one of the choices (f32, bf16)"},
    {"boolean_for_a_graph", 15, "[schedule]\ncuda_graph = true",
     "d.toml:16: schedule.cuda_graph: the boolean true is not one of the choices (auto, off); did you mean "
     "'auto'?"},
    {"peer_reads_of_the_library", 15, "[precision]\nreduction = \"native\"\n[schedule]\npeer_reads = true",
     "d.toml:18: schedule.peer_reads: true has no effect (precision.reduction is 'native', the library's "
     "own); set reduction = \"canonical\", or remove the key"},
    {"boolean_for_choice", 15, "[schedule]\nregather = false",
     "d.toml:16: schedule.regather: the boolean false is not one of the choices (always, never, auto); did "
     "you "
     "mean 'never'?"},
    {"integer_for_choice", 15, "[parallel]\nmode = 3",
     "d.toml:16: parallel.mode: the integer 3 is not one of the choices (ddp, zero1, zero2, fsdp)"},
    {"mesh_is_a_number", 15, "[parallel]\nmesh = 8",
     "d.toml:16: parallel.mesh: the integer 8 is not a table of axes, { name = ranks }, or \"auto\"; did you "
     "mean { data "
     "= 8 }?"},
    {"mesh_axis", 15, "[parallel]\nmesh = { dp = 8 }",
     "d.toml:16: parallel.mesh.dp: unknown axis (axes: replica, data, pipe, context, tensor); did you mean "
     "'data'?"},
    {"mesh_axis_of_torchtitan", 15, "[parallel]\nmesh = { tp = 8 }",
     "d.toml:16: parallel.mesh.tp: unknown axis (axes: replica, data, pipe, context, tensor); did you mean "
     "'tensor'?"},
    {"mesh_axis_of_experts", 15, "[parallel]\nmesh = { ep = 8 }",
     "d.toml:16: parallel.mesh.ep: unknown axis (axes: replica, data, pipe, context, tensor)"},
    {"mesh_axis_type", 15, "[parallel.mesh]\ndata = \"8\"",
     "d.toml:16: parallel.mesh.data: the string \"8\" is not an integer (ranks on the axis; 0: all that "
     "remain)"},
    {"mesh_axis_range", 15, "[parallel.mesh]\ndata = -1",
     "d.toml:16: parallel.mesh.data: -1 is out of range (0 to 16777216 ranks; 0: all that remain)"},
};

const LineMistake sizes[] = {
    {"heads", 6, "heads = 5",
     "d.toml:6: model.heads: 5 heads do not divide model.dim = 64 (a head is dim / heads wide); did you mean "
     "4?"},
    {"odd_head", 6, "heads = 64",
     "d.toml:6: model.heads: 64 heads of model.dim = 64 are 1 wide (rotary positions turn pairs, so the "
     "width is "
     "even); did you mean 32?"},
    {"kv_heads", 6, "heads = 4\nkv_heads = 3",
     "d.toml:7: model.kv_heads: 3 does not divide model.heads = 4 (each serves a group of query heads); did "
     "you mean 2?"},
    {"rope_factors", 15, "[model.rope_scaling]\nfactor = 8\nlow_freq_factor = 4",
     "d.toml:17: model.rope_scaling.low_freq_factor: 4 is not below high_freq_factor = 4 (the change is "
     "smooth between the two)"},
    {"batch", 12, "global_batch = 8\nbatch = 3",
     "d.toml:12: data.global_batch: 8 is not a multiple of data.batch = 3 (sequences a microbatch); use 9"},
    {"batch_with_no_larger_multiple", 12, "global_batch = 16777216\nbatch = 12582912",
     "d.toml:12: data.global_batch: 16777216 is not a multiple of data.batch = 12582912 (sequences a "
     "microbatch); use 12582912"},
    {"no_data", 10, "",
     "d.toml: data.train: missing (no tokens to train on); name a .bin file, or set data.synthetic = true"},
    {"empty_path", 10, "train = [\"\"]",
     "d.toml:10: data.train: an empty path (a token file is named by its path)"},
    {"valid_every_without_valid", 10, "train = \"a.bin\"\nvalid_every = 5",
     "d.toml:11: data.valid_every: 5 has no effect (data.valid names no file); give one, or remove the key"},
    {"valid_sequences_without_valid", 10, "train = \"a.bin\"\nvalid_sequences = 5",
     "d.toml:11: data.valid_sequences: 5 has no effect (data.valid names no file); give one, or remove the "
     "key"},
    {"min_lr", 14, "lr = 1e-3\nmin_lr = 1e-3",
     "d.toml:15: optimizer.min_lr: 0.001 is not below optimizer.lr = 0.001 (the rate decays from lr to "
     "min_lr)"},
    {"min_lr_of_a_constant_rate", 14, "lr = 1e-3\nmin_lr = 1e-4\ndecay = \"constant\"",
     "d.toml:15: optimizer.min_lr: 0.0001 has no effect (optimizer.decay is 'constant'); set another decay, "
     "or remove the key"},
    {"warmup", 14, "lr = 1e-3\nwarmup = 11",
     "d.toml:15: optimizer.warmup: 11 steps are more than run.steps = 10 (the peak is never reached)"},
    {"wsd_too_long", 14, "lr = 1e-3\nwarmup = 6\ndecay = \"wsd\"\ndecay_steps = 5",
     "d.toml:17: optimizer.decay_steps: 5 steps do not fit after the warm-up (run.steps = 10, warmup = 6); "
     "use at most 4"},
    {"decay_steps_unused", 14, "lr = 1e-3\ndecay_steps = 5",
     "d.toml:15: optimizer.decay_steps: 5 has no effect (optimizer.decay is 'cosine'); set decay = \"wsd\", "
     "or remove the key"},
    {"name_is_a_path", 1, "[run]\nname = \"a/b\"",
     "d.toml:2: run.name: 'a/b' cannot name a directory (no '/', not empty); use run.dir for a path"},
    {"replicas_by_another_name", 15, "[parallel]\nmesh = { dp_replicate = 2, data = 0 }",
     "d.toml:16: parallel.mesh.dp_replicate: unknown axis (axes: replica, data, pipe, context, tensor); did "
     "you mean "
     "'replica'?"},
    {"two_open_axes", 15, "[parallel]\nmesh = { replica = 0, data = 0 }",
     "d.toml:16: parallel.mesh: 2 axes of size 0 (only one can take the ranks that remain)"},
    {"nameless_pass", 15, "[schedule]\ndisable = [\"order\", \"\"]",
     "d.toml:16: schedule.disable: an empty name (passes are named as `weft plan` lists them)"},
    {"bucket_of_everything", 15, "[schedule]\nbuckets = [\"embed\", \"\"]",
     "d.toml:16: schedule.buckets: an empty pattern (units are named as \"layers.*\")"},
    {"buckets_of_no_bucketing", 15, "[schedule]\nbucketing = \"none\"\nbuckets = [\"layers\"]",
     "d.toml:17: schedule.buckets: has no effect (schedule.bucketing is 'none'); set bucketing = "
     "\"manual\", or remove the key"},
    {"buckets_of_greedy_bucketing", 15, "[schedule]\nbucketing = \"greedy\"\nbuckets = [\"layers\"]",
     "d.toml:17: schedule.buckets: has no effect (schedule.bucketing is 'greedy'); set bucketing = "
     "\"manual\", or remove the key"},
    {"regather_by_a_search_without_one", 15, "[schedule]\nbucketing = \"manual\"\nregather = \"auto\"",
     "d.toml:17: schedule.regather: auto has no effect (schedule.bucketing is 'manual', and only auto "
     "chooses what to keep); set always, never, or bucketing = \"auto\""},
    {"rules_of_no_recomputation", 15, "[schedule]\nrecompute_ops = \"swiglu\"",
     "d.toml:16: schedule.recompute_ops: has no effect (schedule.recompute is 'none'); set recompute = "
     "\"selective\", or remove the key"},
    {"rule_of_everything", 15, "[schedule]\nrecompute = \"selective\"\nrecompute_ops = [\"swiglu\", \"\"]",
     "d.toml:17: schedule.recompute_ops: an empty rule (operations and modules are named as \"swiglu\" or "
     "\"@layers.*.ffn\")"},
    {"rule_of_an_empty_module", 15,
     "[schedule]\nrecompute = \"selective\"\nrecompute_ops = [\"@layers.0\", \"matmul@\"]",
     "d.toml:17: schedule.recompute_ops: 'matmul@' has no module behind its '@' (modules are named as "
     "\"@layers.*.ffn\")"},
    {"rule_of_nothing_but_its_sign", 15, "[schedule]\nrecompute = \"selective\"\nrecompute_ops = \"@\"",
     "d.toml:17: schedule.recompute_ops: '@' has no module behind its '@' (modules are named as "
     "\"@layers.*.ffn\")"},
    {"resume", 15, "[checkpoint]\nresume = \"\"",
     "d.toml:16: checkpoint.resume: empty (auto, never, or a checkpoint's path)"},
    {"resume_in_capitals", 15, "[checkpoint]\nresume = \"Never\"",
     "d.toml:16: checkpoint.resume: 'Never' is neither auto nor never (a checkpoint of this name is "
     "./Never); did you mean 'never'?"},
    {"keep_every_without_every", 15, "[checkpoint]\nkeep_every = 5",
     "d.toml:16: checkpoint.keep_every: 5 has no effect (checkpoint.every is 0, so nothing is saved on the "
     "way); set checkpoint.every, or remove the key"},
    {"home_by_a_tilde", 1, "[run]\ndir = \"~/x\"",
     "d.toml:2: run.dir: '~/x' begins with a ~ (which only a shell replaces by a directory); write the whole "
     "path"},
    {"home_by_a_variable", 1, "[run]\ndir = \"$HOME/x\"",
     "d.toml:2: run.dir: '$HOME/x' holds a $ (which only a shell replaces by a variable's value); write the "
     "whole path"},
    {"trace_step", 15, "[log]\ntrace_step = 11",
     "d.toml:16: log.trace_step: 11 is past the last step (run.steps = 10)"},
};

/// Numbers that fp32 does not have.
const LineMistake numbers[] = {
    {"rope_theta", 8, "vocab = 256\nrope_theta = 1e39",
     "d.toml:9: model.rope_theta: 1e+39 is too large (it is taken in fp32, where it is infinite); use at "
     "most 3.4e+38"},
    {"norm_eps", 8, "vocab = 256\nnorm_eps = 1e-50",
     "d.toml:9: model.norm_eps: 1e-50 is too small (it is taken in fp32, where it loses digits or becomes "
     "0); use at least 1.2e-38"},
    {"init_std", 8, "vocab = 256\ninit_std = 1e-46",
     "d.toml:9: model.init_std: 1e-46 is too small (it is taken in fp32, where it loses digits or becomes "
     "0); use at least 1.2e-38"},
    {"rope_factor", 15, "[model.rope_scaling]\nfactor = 1e39",
     "d.toml:16: model.rope_scaling.factor: 1e+39 is too large (it is taken in fp32, where it is infinite); "
     "use at most 3.4e+38"},
    {"low_freq_factor", 15, "[model.rope_scaling]\nlow_freq_factor = 1e-46",
     "d.toml:16: model.rope_scaling.low_freq_factor: 1e-46 is too small (it is taken in fp32, where it "
     "loses digits or becomes 0); use at least 1.2e-38"},
    {"high_freq_factor", 15, "[model.rope_scaling]\nhigh_freq_factor = 1e39",
     "d.toml:16: model.rope_scaling.high_freq_factor: 1e+39 is too large (it is taken in fp32, where it is "
     "infinite); use at most 3.4e+38"},
    {"equal_factors", 15, "[model.rope_scaling]\nfactor = 8\nlow_freq_factor = 3.9999999999",
     "d.toml:17: model.rope_scaling.low_freq_factor: 3.9999999999 equals high_freq_factor = 4 in fp32 (the "
     "change between the two divides by their difference); use numbers that are further apart"},
    {"lr", 14, "lr = 1e39",
     "d.toml:14: optimizer.lr: 1e+39 is too large (it is taken in fp32, where it is infinite); use at most "
     "3.4e+38"},
    {"min_lr", 14, "lr = 1e-3\nmin_lr = 1e-40",
     "d.toml:15: optimizer.min_lr: 1e-40 is too small (it is taken in fp32, where it loses digits or "
     "becomes 0); use at least 1.2e-38"},
    {"beta2_is_nothing", 14, "lr = 1e-3\nbeta2 = 1e-50",
     "d.toml:15: optimizer.beta2: 1e-50 is too small (it is taken in fp32, where it loses digits or becomes "
     "0); use at least 1.2e-38"},
    {"beta2_is_one", 14, "lr = 1e-3\nbeta2 = 0.99999999999",
     "d.toml:15: optimizer.beta2: 0.99999999999 is 1 in fp32 (the second moment would never decay); use at "
     "most 0.9999999"},
    {"eps", 14, "lr = 1e-3\neps = 1e-50",
     "d.toml:15: optimizer.eps: 1e-50 is too small (it is taken in fp32, where it loses digits or becomes "
     "0); use at least 1.2e-38"},
    {"weight_decay", 14, "lr = 1e-3\nweight_decay = 1e39",
     "d.toml:15: optimizer.weight_decay: 1e+39 is too large (it is taken in fp32, where it is infinite); "
     "use at most 3.4e+38"},
    {"clip", 14, "lr = 1e-3\nclip = 1e-46",
     "d.toml:15: optimizer.clip: 1e-46 is too small (it is taken in fp32, where it loses digits or becomes "
     "0); use at least 1.2e-38"},
};

/// The advice of these mistakes is taken, and so is a 0 that switches something off.
TEST(Mistakes, NumbersAtTheEndsOfFp32AreNone) {
  EXPECT_EQ(mistake(std::string(example),
                    {"optimizer.eps=1.2e-38", "optimizer.clip=3.4e38", "optimizer.beta2=0.9999999",
                     "optimizer.beta1=0.99999999999", "model.rope_theta=3.4e38", "model.norm_eps=1.2e-38"}),
            "no error");
  EXPECT_EQ(mistake(std::string(example), {"optimizer.clip=0", "optimizer.weight_decay=0",
                                           "optimizer.min_lr=0", "optimizer.beta2=0"}),
            "no error");
}

/// Keys that have no effect as they stand, but are of a deck that one setting, or a search, changes.
TEST(Mistakes, WhatASettingSwitchesOffForOnceIsNone) {
  const std::string rules = "schedule.recompute_ops=[\"swiglu\"]";
  EXPECT_EQ(mistake(std::string(example), {"schedule.recompute=full", rules}), "no error");
  EXPECT_EQ(mistake(std::string(example), {"parallel.mesh=auto", rules}), "no error");
  EXPECT_EQ(mistake(std::string(example), {"schedule.buckets=[\"layers\"]"}), "no error")
      << "one of the plans that bucketing = auto compares";
  EXPECT_EQ(mistake(std::string(example), {"data.valid=a.bin", "data.valid_every=5"}), "no error");
  for (const char* set : {"optimizer.decay=constant", "optimizer.min_lr=1e-5"})
    EXPECT_EQ(mistake(std::string(example), {set}), "no error") << set;
  EXPECT_EQ(mistake(std::string(example), {"optimizer.decay=constant", "optimizer.min_lr=1e-5"}), "no error");
  EXPECT_EQ(mistake(std::string(example), {"schedule.bucketing=none", "schedule.buckets=[\"layers\"]"}),
            "no error");
  EXPECT_EQ(mistake(std::string(example), {"schedule.bucketing=greedy", "schedule.regather=auto"}),
            "no error");
  EXPECT_EQ(mistake(with_line(15, "[checkpoint]\nevery = 2\nkeep_every = 4"), {"checkpoint.every=0"}),
            "no error");
}

TEST(Mistakes, PathsThatOnlyAShellCompletes) {
  for (const std::string key :
       {"run.dir", "model.init", "data.train", "data.valid", "schedule.profile", "checkpoint.resume"}) {
    for (const std::string path : {"~", "~/x", "~me/x", "$HOME/x", "runs/${USER}"}) {
      const std::string said = mistake(std::string(example), {key + "=" + path});
      EXPECT_TRUE(said.starts_with("--set: " + key + ": '" + path + "' ")) << said;
      EXPECT_EQ(said.find('\n'), said.npos) << said;
    }
    for (const char* path : {"./~x", "runs/~x", "x~"})
      EXPECT_EQ(mistake(std::string(example), {key + "=" + path}), "no error") << key;
  }
  EXPECT_NE(mistake(std::string(example), {"data.train=[\"a.bin\", \"~/b.bin\"]"}).find("'~/b.bin'"),
            std::string::npos);
}

/// A name that no slip leads to is a path, and so is one with a '/'.
TEST(Mistakes, PathsOfCheckpointsAreNone) {
  for (const char* path : {"./Never", "best", "step-00000160", "autosave"})
    EXPECT_EQ(mistake(std::string(example), {std::string("checkpoint.resume=") + path}), "no error");
}

const auto name_of_case = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Structure, OneLine, testing::ValuesIn(structure), name_of_case);
INSTANTIATE_TEST_SUITE_P(Values, OneLine, testing::ValuesIn(values), name_of_case);
INSTANTIATE_TEST_SUITE_P(Sizes, OneLine, testing::ValuesIn(sizes), name_of_case);
INSTANTIATE_TEST_SUITE_P(Numbers, OneLine, testing::ValuesIn(numbers), name_of_case);

TEST(Mistakes, AllAreShownInTheOrderOfTheFile) {
  EXPECT_EQ(mistake("[run]\nsteps = 0\n[log]\nevry = 1\n[model]\ndim = 64\nlayers = 2\nffn = 3\nvocab = 4\n"),
            "d.toml:2: run.steps: 0 is out of range (1 to 2147483647)\n"
            "d.toml:4: log.evry: unknown key (keys of [log]: every, tensorboard, trace_step, progress, "
            "peak_tflops, spike); did "
            "you mean 'log.every'?\n"
            "d.toml:5: model.heads: missing (required: Query heads (H).)\n"
            "d.toml:1: data: missing table (required in it: seq, global_batch)\n"
            "d.toml:1: optimizer: missing table (required in it: lr)");
  EXPECT_EQ(mistake(with_line(6, "heads = 5\nkv_heads = 3")),
            "d.toml:6: model.heads: 5 heads do not divide model.dim = 64 (a head is dim / heads wide); did "
            "you mean 4?\n"
            "d.toml:7: model.kv_heads: 3 does not divide model.heads = 5 (each serves a group of query "
            "heads); did you mean 1?");
}

TEST(Mistakes, AtMostTwentyLines) {
  std::string log = "[log]\n";
  for (int i = 0; i < 25; ++i) log += "zzzz" + std::to_string(i) + " = 1\n";
  const auto message = mistake(with_line(15, log));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 20);
  EXPECT_NE(message.find("\n... and 5 more"), std::string::npos);
}

TEST(Mistakes, StayOnOneLine) {
  EXPECT_EQ(mistake(with_line(2, "steps = 10\n\"a\\nb\\u0007\" = 1")),
            "d.toml:3: run.a\\nb\\x07: unknown key (keys of [run]: name, dir, steps, seed, walltime, "
            "memory_limit, collective_timeout, storage_timeout)");
}

// A megabyte of dots would be half a million tables, one inside the other.
TEST(Mistakes, OfDepthEndBeforeTheStackDoes) {
  const auto deep = [](std::size_t keys) {
    std::string dots;
    for (std::size_t i = 1; i < keys; ++i) dots += "a.";
    return dots + "a";
  };
  const std::string said = "d.toml:1: nested too deeply (keys stand below [table], one a line)";
  EXPECT_EQ(mistake(deep(500000) + " = 1"), said);
  EXPECT_EQ(mistake("[" + deep(500000) + "]"), said);
  EXPECT_EQ(mistake("x = { a = 'it''s', " + deep(500000) + " = 1 }"), said);
  EXPECT_EQ(mistake("x = \"\"\"\\\"\"\"\"\"\", " + deep(100) + " = 1"), said);
  EXPECT_EQ(mistake(std::string(example), {"model.dim={" + deep(500000) + "=1}"}).substr(0, 17),
            "--set: model.dim:");
  const std::string twice = with_line(4, "dim = \"{" + deep(500000) + " = 1}\"");
  EXPECT_EQ(mistake(twice).substr(0, 29), "d.toml:4: model.dim: the stri");
  const std::string dots(1000, '.');
  const std::string in_text =
      "# " + dots + "\ntrain = [\"" + dots + "\", '" + dots + "', \"\"\"" + dots + "\"\"\"]";
  EXPECT_EQ(mistake(with_line(10, in_text)), "no error");
}

TEST(Mistakes, OfManyLinesAreFoundSoon) {
  EXPECT_EQ(mistake("[run]\nsteps = 1" + std::string(500000, '\n') + "steps = 2"),
            "d.toml:500002: run.steps: given twice (this key already stands on line 2); keep one");
}

TEST(Mistakes, InSettingsNameTheOption) {
  const auto set = [](const std::string& s) { return mistake(std::string(example), {s}); };
  EXPECT_EQ(set("run.steps"), "--set: 'run.steps' has no '=' (a setting reads table.key=value)");
  EXPECT_EQ(set("lr=3"),
            "--set: lr: unknown key (a setting reads table.key=value); did you mean 'optimizer.lr'?");
  EXPECT_EQ(set("=3"), "--set: '': unknown key (a setting reads table.key=value)");
  EXPECT_EQ(set("optim.learning_rate=3"),
            "--set: optim.learning_rate: unknown key (`weft deck --schema` lists all); did you mean "
            "'optimizer.lr'?");
  EXPECT_EQ(set("run.steps.x=3"), "--set: run.steps.x: unknown key (`weft deck --schema` lists all)");
  EXPECT_EQ(set("run.steps="), "--set: run.steps: no value (write \"\" for empty text)");
  EXPECT_EQ(set("run.name=\xff"), "--set: run.name: not UTF-8 text");
  EXPECT_EQ(set("run.steps=abc"), "--set: run.steps: the string \"abc\" is not an integer (1 to 2147483647)");
  EXPECT_EQ(set("run.steps=1e3"),
            "--set: run.steps: the number 1000 is not an integer (1 to 2147483647); did you mean 1000?");
  EXPECT_EQ(set("run.steps=4e9"),
            "--set: run.steps: the number 4000000000 is not an integer (1 to 2147483647)");
  EXPECT_EQ(set("run.steps=1e19"), "--set: run.steps: 1e+19 is too large; use at most 2147483647");
  const std::string large = "99999999999999999999";
  EXPECT_EQ(set("run.steps=" + large),
            "--set: run.steps: " + large + " is too large; use at most 2147483647");
  EXPECT_EQ(set("run.seed=" + large),
            "--set: run.seed: " + large + " is too large; use at most 9223372036854775807");
  EXPECT_EQ(set("run.seed=-" + large), "--set: run.seed: -" + large + " is out of range (at least 0)");
  EXPECT_EQ(set("run.walltime=" + large), "--set: run.walltime: 1e+20 is out of range (0 to 1000000000)");
  EXPECT_EQ(set("run.walltime=1e400"), "--set: run.walltime: 1e400 is too large; use at most 1000000000");
  EXPECT_EQ(set("run.memory_limit=1e400"), "--set: run.memory_limit: 1e400 is too large; use at most 1e+18");
  EXPECT_EQ(set("optimizer.lr=1e400"), "--set: optimizer.lr: 1e400 is too large; use at most 3.4e+38");
  EXPECT_EQ(set("optimizer.lr=-1e400"), "--set: optimizer.lr: -1e400 is out of range (above 0)");
  EXPECT_EQ(set("schedule.disable=[order]"),
            "--set: schedule.disable: '[order]' is not a TOML value (quote it for the shell: --set "
            "'schedule.disable=...')");
  EXPECT_EQ(
      set("parallel.mesh={ data = 2, data = 2 }"),
      "--set: parallel.mesh: '{ data = 2, data = 2 }' gives a key twice (each has one value); keep one");
  EXPECT_EQ(set("checkpoint.resume=true"),
            "--set: checkpoint.resume: 'true' is neither auto nor never (a checkpoint of this name is "
            "./true); did you mean 'auto'?");
  EXPECT_EQ(set("model.heads=5"),
            "--set: model.heads: 5 heads do not divide model.dim = 64 (a head is dim / heads wide); did you "
            "mean 4?");
  EXPECT_EQ(set("parallel.mesh.dp=2"),
            "--set: parallel.mesh.dp: unknown axis (axes: replica, data, pipe, context, tensor); did you "
            "mean 'data'?");
  EXPECT_EQ(set("parallel.mesh.cp=2"),
            "--set: parallel.mesh.cp: unknown axis (axes: replica, data, pipe, context, tensor); did you "
            "mean 'context'?");
  EXPECT_EQ(set("log=3"), "--set: log: the integer 3 is not a table (its keys stand below [log])");
  EXPECT_EQ(set("log.every=1\nlog.progress=false"),
            "--set: log.every: the string \"1\\nlog.progress=false\" is not an integer (1 to 2147483647)");
  EXPECT_EQ(mistake("log = 4\n" + std::string(example), {"log.every=2"}),
            "--set: log.every: cannot be set ('log' is the integer 4 at d.toml:1)\n"
            "d.toml:1: log: the integer 4 is not a table (its keys stand below [log])");
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("weft_deck_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const auto path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::filesystem::path folder_;
};

TEST_F(Files, CannotBeRead) {
  const auto good = write("small_llama.toml", std::string(example));
  EXPECT_EQ(parse_deck(good).model.dim, 64);
  const auto read = [](const std::string& path) { return error_of([&] { parse_deck(path); }); };
  const auto slip = (folder_ / "smal_lama.toml").string();
  EXPECT_EQ(read(slip),
            slip + ": cannot read the deck (No such file or directory); did you mean '" + good + "'?");
  const auto far = (folder_ / "nothing" / "like_it.toml").string();
  EXPECT_EQ(read(far), far + ": cannot read the deck (No such file or directory)");
  EXPECT_EQ(read(folder_.string()),
            folder_.string() + ": cannot read the deck (a directory); name a .toml file in it");
  const auto tokens = write("tokens.bin", std::string((1 << 20) + 1, 'x'));
  EXPECT_EQ(read(tokens), tokens + ": not a deck (larger than 1048576 bytes); decks are TOML text");
  const auto empty = write("empty.toml", "");
  EXPECT_EQ(read(empty).substr(0, empty.size() + 24), empty + ":1: run: missing table (");
}

}  // namespace
}  // namespace weft::test
