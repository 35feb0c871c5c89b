// The input deck: everything that a run is told. Decks are TOML files; schema.cpp lists each key with its
// range and meaning, and docs/deck.md is generated from that list. Deck stands in namespace weft, like Mesh,
// because all folders use it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/choices.hpp"
#include "base/dtype.hpp"
#include "base/mesh.hpp"
#include "base/pipeline_kind.hpp"

namespace weft {

enum class LrDecay : std::uint8_t { constant, linear, cosine, wsd };
enum class Regather : std::uint8_t { always, never, automatic };
/// Whether two microbatches take turns.
enum class Alternate : std::uint8_t { always, never, automatic };
enum class Bucketing : std::uint8_t { none, manual, greedy, automatic };
/// What follows a step whose loss or gradient norm is not finite.
enum class Nonfinite : std::uint8_t { stop, skip, rollback };
enum class NanSearch : std::uint8_t { off, locate };

/// The deck's word for a choice: "cosine", "fsdp", ...
std::string_view name_of(LrDecay decay);
std::string_view name_of(ShardMode mode);
std::string_view name_of(ReduceOrder reduction);
std::string_view name_of(F32Products products);
std::string_view name_of(Regather regather);
std::string_view name_of(Alternate alternate);
std::string_view name_of(Recompute recompute);
std::string_view name_of(Bucketing bucketing);
std::string_view name_of(Accumulation accumulation);
std::string_view name_of(CudaGraph graph);
std::string_view name_of(Nonfinite nonfinite);
std::string_view name_of(NanSearch search);

struct RunDeck {
  std::string name = "weft";
  std::string dir;  ///< runs/<name> unless given; never empty after parsing
  std::int64_t steps = 0;
  std::int64_t seed = 1234;
  double walltime = 0;              ///< seconds; 0: none
  double memory_limit = 0;          ///< bytes that a rank may take; 0: none
  double collective_timeout = 600;  ///< seconds; 0: none
  double storage_timeout = 1800;    ///< seconds; 0: none
  bool operator==(const RunDeck&) const = default;
};

/// The change of the rotary frequencies that Llama 3.1 brought; it is off when factor is 1.
struct RopeScalingDeck {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_position = 8192;
  bool operator==(const RopeScalingDeck&) const = default;
};

struct ModelDeck {
  std::int64_t dim = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< heads unless given; never 0 after parsing
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  double rope_theta = 500000;
  RopeScalingDeck rope_scaling;
  double norm_eps = 1e-5;
  bool tie_embeddings = false;
  double init_std = 0.02;
  std::string init;  ///< a Hugging Face directory or a checkpoint; empty: random weights
  bool operator==(const ModelDeck&) const = default;
};

struct DataDeck {
  std::vector<std::string> train;  ///< token files, relative to the working directory
  std::vector<std::string> valid;
  bool synthetic = false;  ///< uniform random tokens; train and valid are not opened
  std::int64_t seq = 0;
  bool document_mask = false;        ///< attention and positions stay within a document
  std::int64_t batch = 1;            ///< sequences in a microbatch
  std::int64_t global_batch = 0;     ///< sequences in a step, over all ranks
  std::int64_t valid_every = 0;      ///< steps between validations; 0: only at the end
  std::int64_t valid_sequences = 0;  ///< how many sequences are validated; 0: all
  bool allow_change = false;         ///< a continued run may have other token files than its checkpoint
  bool operator==(const DataDeck&) const = default;
};

struct OptimizerDeck {
  double lr = 0;
  double min_lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;  ///< largest gradient norm; 0: off
  std::int64_t warmup = 0;
  LrDecay decay = LrDecay::cosine;
  std::int64_t decay_steps = 0;  ///< wsd only; 0 after parsing: the warm-up leaves no step to it
  Nonfinite nonfinite = Nonfinite::stop;
  std::int64_t nonfinite_limit = 10;  ///< bad steps in a row that skip and rollback put up with
  bool operator==(const OptimizerDeck&) const = default;
};

struct ParallelDeck {
  ShardMode mode = ShardMode::fsdp;
  /// A size of 0: all remaining ranks (resolve_mesh). No axes: "auto", chosen by advise::chosen_settings().
  std::vector<MeshAxis> mesh{{"data", 0}};
  bool operator==(const ParallelDeck&) const = default;
};

/// How the stages of the mesh's axis pipe work. Without that axis it has no effect.
struct PipelineDeck {
  PipelineKind schedule = PipelineKind::one_f_one_b;
  std::int64_t chunks = 1;           ///< stages a rank
  std::vector<std::int64_t> layers;  ///< how many layers each stage has; empty: balanced
  bool operator==(const PipelineDeck&) const = default;
};

struct PrecisionDeck {
  DType params = DType::f32;     ///< f32 or bf16
  DType norms = DType::f32;      ///< norms' weights: f32, or bf16 as the other parameters
  DType grad_wire = DType::f32;  ///< f32 or bf16
  ReduceOrder reduction = ReduceOrder::canonical;
  F32Products f32_products = F32Products::split;
  bool deterministic = true;        ///< whether attention's gradient has the same bits each time on a GPU
  std::vector<std::string> float8;  ///< patterns of module paths; empty: none
  GradientFormat float8_gradients = GradientFormat::e4m3;
  Float8Scales float8_scales = Float8Scales::rowwise;
  std::int64_t head_rows = 512;  ///< tokens whose logits exist at a time; 0: all
  bool operator==(const PrecisionDeck&) const = default;
};

struct ScheduleDeck {
  std::vector<std::string> disable;  ///< passes switched off by name
  Recompute recompute = Recompute::none;
  std::vector<std::string> recompute_ops{"rms_norm", "swiglu"};  ///< OP, OP@MODULE or @MODULE
  Regather regather = Regather::always;
  Alternate alternate = Alternate::automatic;
  double memory_limit = 0;  ///< bytes of arena and state that a plan may take on a rank; 0: none
  Bucketing bucketing = Bucketing::automatic;
  std::vector<std::string> buckets{"embed", "layers.*", "head"};  ///< patterns of module paths
  std::int64_t prefetch = -1;  ///< buckets gathered ahead; -1: see the schema
  double prefetch_bytes = 0;   ///< the most bytes gathered ahead; 0: no limit
  /// Reductions that may begin before the memory of an earlier one is used again; -1: see the schema.
  std::int64_t reduce_delay = -1;
  Accumulation accumulate = Accumulation::each;
  CudaGraph cuda_graph = CudaGraph::automatic;
  bool peer_reads = false;  ///< whether GPUs read each other's gradients in place of sending them
  std::string profile;      ///< a machine profile's file, or a machine's name; empty: the build's default
  bool operator==(const ScheduleDeck&) const = default;
};

struct CheckpointDeck {
  std::int64_t every = 0;  ///< steps between checkpoints; 0: none before the end
  std::int64_t keep = 2;
  std::int64_t keep_every = 0;  ///< checkpoints at multiples of this step stay, too; 0: none
  bool background = true;       ///< saves on the way are written while training goes on
  double alignment = 4 << 20;   ///< where large datasets begin in a shard's file, in bytes
  bool direct_io = true;        ///< leaves out the page cache, where the file system allows it
  bool initial = false;         ///< whether there is a checkpoint of the initial weights, at step 0
  bool final = true;            ///< whether there is a checkpoint at the end
  std::string resume = "auto";  ///< "auto", "never", or a checkpoint's path
  bool operator==(const CheckpointDeck&) const = default;
};

struct LogDeck {
  std::int64_t every = 10;
  bool tensorboard = true;
  std::int64_t trace_step = 0;  ///< the step whose timeline goes to trace.json; 0: none
  bool progress = true;
  double peak_tflops = 0;  ///< what a rank can compute; 0: no MFU
  /// Deviations above the median from which a loss is a spike; 0: spikes are not looked for.
  double spike = 8;
  bool operator==(const LogDeck&) const = default;
};

struct DebugDeck {
  std::int64_t hash_every = 0;  ///< steps between state hashes; 0: none
  NanSearch nan = NanSearch::off;
  bool operator==(const DebugDeck&) const = default;
};

/// Where a key got its value: "inputs/quickstart.toml:12", or "--set".
struct KeyPlace {
  std::string key;
  std::string place;
};

struct Deck {
  RunDeck run;
  ModelDeck model;
  DataDeck data;
  OptimizerDeck optimizer;
  ParallelDeck parallel;
  PipelineDeck pipeline;
  PrecisionDeck precision;
  ScheduleDeck schedule;
  CheckpointDeck checkpoint;
  LogDeck log;
  DebugDeck debug;
  std::string source;            ///< the file's name, for messages
  std::vector<KeyPlace> places;  ///< the places of the keys that were given
};

/// True when all settings are equal; `source` and `places` do not count.
bool operator==(const Deck& a, const Deck& b);

/// "FILE:LINE: table.key", or "FILE: table.key" for a key left at its default: how an error about a key
/// begins.
std::string place_of(const Deck& deck, std::string_view key);

/// Reads the TOML file `path`, applies `sets` ("table.key=value", later ones win; the value is TOML, or a
/// bare word for text), fills in the defaults that depend on other keys, and validates. Throws
/// Error(bad_input) with one line "FILE:LINE: table.key: PROBLEM (WHY); did you mean 'x'?" for each mistake,
/// 20 lines at most. Opens no other file.
Deck parse_deck(const std::string& path, std::span<const std::string> sets = {});
/// Parses text in memory, as parse_deck() does a file; `source_name` stands for FILE.
Deck parse_deck_text(std::string_view text, const std::string& source_name,
                     std::span<const std::string> sets = {});

/// Parses the deck that a run printed (print_deck), perhaps of an earlier version. Keys that it lacks get the
/// meaning that runs had then. Each key is in its range; what keys must be together was for that version to
/// say, so it is not checked.
Deck parse_saved_deck(std::string_view text, const std::string& source_name);
Deck read_saved_deck(const std::string& path);

/// Checks what no single key can show: sizes that must divide, and keys that need or exclude each other. The
/// parsers call it; call it again after changing a deck in code. Throws Error(bad_input) with a line for each
/// mistake.
void validate(const Deck& deck);

/// The resolved deck as TOML: every key, in the schema's order. Parsing it gives an equal deck.
std::string print_deck(const Deck& deck);
/// A key that two decks set differently, with its values as print_deck writes them.
struct KeyChange {
  std::string key;  ///< "table.name"
  std::string from, to;
};
/// The keys that differ, in the schema's order.
std::vector<KeyChange> changes(const Deck& from, const Deck& to);
/// Every key with type, default, range and meaning: as text for a terminal, and as docs/deck.md.
std::string schema_text();
std::string schema_markdown();

/// The number of trainable parameters, norms included; a tied embedding counts once.
std::int64_t parameter_count(const ModelDeck& model);

/// How many microbatches a rank computes in a step: global_batch / (batch * batch_ranks). Throws
/// Error(bad_input) when that is not a whole number, and names rank counts that would do.
std::int64_t accumulation(const Deck& deck, int batch_ranks);

/// The mesh of [parallel] over `world` ranks: the deck's axes, and a data axis. An axis of size 0 gets what
/// remains, or the data axis where the deck has none. Throws Error(bad_input) when the axes' sizes do not
/// multiply to `world`, and for a mesh that is still "auto".
Mesh resolve_mesh(const Deck& deck, int world);

}  // namespace weft
