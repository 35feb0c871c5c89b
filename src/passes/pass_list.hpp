// The list of passes, in order, with their configuration bound.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/passes.hpp"

namespace weft::passes {

enum class Bits : std::uint8_t {
  exact,    ///< the loss keeps its bits
  numerics  ///< the loss's last digits change: a deck key asks for it, and no search picks it
};

struct Pass {
  std::string name;
  Bits bits;
  std::function<ir::Graph(const ir::Graph&)> run;
};

struct PassOptions {
  std::optional<StageOptions> stage;  ///< none: the rank has the whole model
  bool partition = false;             ///< the mesh has a tensor axis of several ranks
  bool context = false;               ///< the mesh has a context axis of several ranks
  bool float8 = false;                ///< some units have Unit::float8
  bool f32_norms = false;             ///< all units have Unit::f32_norms
  UpdateOptions update;
  std::int64_t head_rows = 512;  ///< tokens whose logits exist at a time; 0: all
  PrecisionOptions precision;
  ShardOptions shard;
  RecomputeOptions recompute;
  HoistOptions hoist;
  Turns turns = Turns::none;       ///< how two microbatches take turns, see microbatches_take_turns()
  bool rows = false;               ///< only those rows of an embedding's table are sent that tokens name
  std::optional<Buckets> buckets;  ///< none: each unit has collectives of its own
  OrderOptions order;
  std::vector<std::string> disable;  ///< passes switched off by name
};

/// Whether the passes let two microbatches take turns. The axes tensor and context need it, no pipe has it,
/// and it may be switched off by name.
bool microbatches_take_turns(const PassOptions& options);

/// All passes, from a forward with losses to the whole training step.
std::vector<Pass> training_passes(const PassOptions& options);
/// The first part of training_passes(). It knows no mesh yet, and ends with the element types.
std::vector<Pass> before_sharding(const PassOptions& options);
/// The second part. After it, each unit has collectives of its own, each where it is needed.
std::vector<Pass> sharding(const PassOptions& options);
/// The third part: which collectives are one, and when they begin.
std::vector<Pass> after_sharding(const PassOptions& options);
/// The passes for a forward of `rounds` rounds alone: it is placed over the mesh, and gets no backward and no
/// update. In a pipe the stages work on several rounds at a time.
std::vector<Pass> forward_passes(const PassOptions& options, int rounds = 1);

/// The units of a rank that has these stages (none: the whole model) of the model's units, after all passes:
/// its parts of them over a tensor axis of `tensor_ranks`, and the norms apart that no such axis has moved.
std::vector<Unit> units_of_rank(const std::vector<Unit>& model, const std::optional<StageOptions>& stage,
                                int tensor_ranks);

/// Throws Error(bad_input) when a name in options.disable is no pass, or one that a training step cannot do
/// without. `place` is where the names stand: "FILE:LINE: schedule.disable".
void check_disabled(const PassOptions& options, const std::string& place);

/// A function that sees the graph before and after each pass.
using Observer = std::function<void(const Pass&, const ir::Graph& before, const ir::Graph& after)>;
/// Runs the passes; the verifier runs after each of them in debug builds, and at the end always.
ir::Graph run(const std::vector<Pass>& passes, const ir::Graph& graph, const Observer& observer = {});

}  // namespace weft::passes
