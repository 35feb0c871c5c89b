#include "plan/kept.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>

#include "ops/cost.hpp"

namespace weft::plan {
namespace {

using ir::Node;
using ir::Phase;

/// The kind of a module: "layers.3.attn" gives "layers.*.attn".
std::string kind_of(const std::string& module) {
  constexpr std::string_view layers = "layers.";
  const std::size_t dot = module.find('.', layers.size());
  if (!module.starts_with(layers) || dot == std::string::npos) return module;
  return std::string(layers) + "*" + module.substr(dot);
}

/// A value's name without its module and without what tells values of one name apart: "layers.3.attn.q~2"
/// gives "q".
std::string short_name(const std::string& name, const std::string& module) {
  const std::string rest = name.starts_with(module + ".") ? name.substr(module.size() + 1) : name;
  return rest.substr(0, rest.find_first_of("~#"));
}

std::int64_t sum(const std::vector<KeptValue>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0},
                         [](std::int64_t bytes, const KeptValue& v) { return bytes + v.bytes; });
}

class Collector {
 public:
  explicit Collector(const ir::Graph& graph) : graph_(graph) {}

  std::vector<KeptKind> run() {
    for (const Node& node : graph_.nodes())
      if (node.phase == Phase::backward && node.round == 0) {
        for (ir::ValueId input : node.inputs) read_.insert(graph_.alias_root(input));
        for (ir::ValueId output : node.outputs) made_.insert(graph_.value(output).name);
      }
    for (const Node& node : graph_.nodes())
      if (node.phase == Phase::forward && node.round == 0 && !ir::is_alias(node.op))
        for (std::size_t i = 0; i < node.outputs.size(); ++i)
          if (!ops::gathered_in_place(graph_, node, i).valid()) add(node, node.outputs[i]);
    return std::move(kinds_);
  }

 private:
  void add(const Node& node, ir::ValueId id) {
    const ir::Value& value = graph_.value(id);
    const bool computed = made_.contains(value.name + ".again");
    if (value.home.valid() || (!computed && !read_.contains(id))) return;
    const std::string module = ir::module_of(node, value);
    KeptKind& kind = this->kind(module);
    std::vector<KeptValue>& list = computed ? kind.computed : kind.kept;
    const std::string name = short_name(value.name, module);
    auto known = std::find_if(list.begin(), list.end(), [&](const KeptValue& v) { return v.name == name; });
    if (known == list.end()) known = list.insert(list.end(), {name, 0});
    known->bytes += graph_.local_bytes(id);
  }

  KeptKind& kind(const std::string& module) {
    const std::string name = kind_of(module);
    auto known =
        std::find_if(kinds_.begin(), kinds_.end(), [&](const KeptKind& k) { return k.module == name; });
    if (known == kinds_.end()) known = kinds_.insert(kinds_.end(), {name, 0, {}, {}});
    if (modules_.insert(module).second) ++known->modules;
    return *known;
  }

  const ir::Graph& graph_;
  std::set<ir::ValueId> read_;  ///< values that backward reads
  /// Names of values that backward makes; recompute adds ".again" to the name of a value that it makes again.
  std::set<std::string> made_;
  std::set<std::string> modules_;
  std::vector<KeptKind> kinds_;
};

}  // namespace

std::int64_t KeptKind::kept_bytes() const {
  return sum(kept);
}
std::int64_t KeptKind::computed_bytes() const {
  return sum(computed);
}

std::vector<KeptKind> kept_for_backward(const ir::Graph& graph) {
  return Collector(graph).run();
}

}  // namespace weft::plan
