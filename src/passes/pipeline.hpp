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
  numerics  ///< it changes their last digits: a deck key says so, and no search picks it
};

struct Pass {
  std::string name;
  Bits bits;
  std::function<ir::Graph(const ir::Graph&)> run;
};

struct PipelineOptions {
  UpdateOptions update;
  std::int64_t head_rows = 512;  ///< 0: logits stay whole
  PrecisionOptions precision;
  ShardOptions shard;
  RecomputeOptions recompute;
  bool rows = false;               ///< of an embedding's table, only the rows that tokens name are sent
  std::optional<Buckets> buckets;  ///< none: a collective a unit
  OrderOptions order;
  std::vector<std::string> disable;  ///< passes switched off by name
};

/// From a forward with losses to the whole training step.
std::vector<Pass> training_pipeline(const PipelineOptions& options);
/// Its parts. The first knows no mesh yet: up to element types.
std::vector<Pass> before_sharding(const PipelineOptions& options);
/// To where each unit has collectives of its own, each where it is needed.
std::vector<Pass> sharding(const PipelineOptions& options);
/// Which collectives are one, and when they begin.
std::vector<Pass> after_sharding(const PipelineOptions& options);
/// From a forward to the same on the mesh, without backward and update.
std::vector<Pass> forward_pipeline(const PipelineOptions& options);

/// Throws Error(bad_input) when a name in options.disable is no pass, or one that a training step cannot do
/// without. `place` is where the names stand: "FILE:LINE: schedule.disable".
void check_disabled(const PipelineOptions& options, const std::string& place);

/// Sees the graph before and after each pass.
using Observer = std::function<void(const Pass&, const ir::Graph& before, const ir::Graph& after)>;
/// Runs the passes; the verifier runs after each of them in debug builds, and at the end always.
ir::Graph run(const std::vector<Pass>& passes, const ir::Graph& graph, const Observer& observer = {});

}  // namespace weft::passes
