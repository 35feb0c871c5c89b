#include "passes/pipeline.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "ir/verify.hpp"
#include "ops/verify.hpp"

namespace weft::passes {
namespace {

void verify_all(const ir::Graph& graph) {
  ir::verify(graph);
  ops::verify_types(graph);
}

bool disabled(const PipelineOptions& options, std::string_view name) {
  return std::find(options.disable.begin(), options.disable.end(), name) != options.disable.end();
}

}  // namespace

std::vector<Pass> forward_pipeline(const PipelineOptions& options) {
  std::vector<Pass> passes;
  if (options.head_rows > 0 && !disabled(options, "head"))
    passes.push_back(
        {"head", Bits::numerics, [rows = options.head_rows](const ir::Graph& g) { return head(g, rows); }});
  passes.push_back(
      {"precision", Bits::numerics, [o = options.precision](const ir::Graph& g) { return precision(g, o); }});
  passes.push_back({"shard", Bits::exact, [o = options.shard](const ir::Graph& g) { return shard(g, o); }});
  if (!disabled(options, "order"))
    passes.push_back(
        {"order", Bits::exact, [n = options.prefetch](const ir::Graph& g) { return order(g, n); }});
  return passes;
}

std::vector<Pass> training_pipeline(const PipelineOptions& options) {
  std::vector<Pass> passes;
  passes.push_back({"autodiff", Bits::exact, [](const ir::Graph& g) { return autodiff(g); }});
  passes.push_back(
      {"update", Bits::exact, [o = options.update](const ir::Graph& g) { return update(g, o); }});
  for (Pass& pass : forward_pipeline(options)) passes.push_back(std::move(pass));
  return passes;
}

void check_disabled(const PipelineOptions& options, const std::string& place) {
  for (const std::string& name : options.disable)
    WEFT_VALIDATE(name == "head" || name == "order" || name == "memory",
                  "{}: '{}' cannot be switched off (passes that can: head, order, memory)", place, name);
}

ir::Graph run(const std::vector<Pass>& passes, ir::Graph graph, const Observer& observer) {
  for (const Pass& pass : passes) {
    ir::Graph next = pass.run(graph);
#ifdef WEFT_DEBUG
    verify_all(next);
#endif
    if (observer) observer(pass, graph, next);
    graph = std::move(next);
  }
  verify_all(graph);
  return graph;
}

}  // namespace weft::passes
