#include "plan/buffers.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/align.hpp"
#include "ops/cost.hpp"

namespace weft::plan {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;
using namespace ir::operand;

/// An output, and an input whose buffer it may take over.
struct InPlace {
  ir::Out to;
  ir::In from;
};
/// The buffers that an operation's outputs may take over, in order of preference.
std::vector<InPlace> in_place_choices(Op op) {
  switch (op) {
    case Op::add: return {{add::sum, add::a}, {add::sum, add::b}};
    case Op::add_rms_norm:
      return {{add_rms_norm::sum, add_rms_norm::x}, {add_rms_norm::sum, add_rms_norm::branch}};
    case Op::rope: return {{rope::y, rope::x}};
    case Op::cross_entropy_grad: return {{cross_entropy_grad::dlogits, cross_entropy_grad::logits}};
    case Op::all_reduce: return {{single::to, single::from}};
    case Op::swiglu_grad:  // side by side, gate stands for both
      return {{swiglu_grad::dgate, swiglu_grad::gate}, {swiglu_grad::dup, swiglu_grad::up}};
    case Op::accumulate: return {{accumulate::sum, accumulate::so_far}};
    case Op::sum_squares: return {{sum_squares::sum, sum_squares::so_far}};
    case Op::amax: return {{amax::largest, amax::so_far}};
    case Op::rms_norm_grad: return {{rms_norm_grad::dx, rms_norm_grad::so_far}};
    case Op::matmul_dgrad: return {{matmul_dgrad::dx, matmul_dgrad::so_far}};
    case Op::matmul_dgrad_f8: return {{matmul_dgrad_f8::dx, matmul_dgrad_f8::so_far}};
    default: return {};
  }
}
/// Whether the node adds to a value where that stands.
bool continues_sum(const Node& node) {
  return (node.op == Op::rms_norm_grad && node.has(rms_norm_grad::so_far)) ||
         (node.op == Op::matmul_dgrad && node.has(matmul_dgrad::so_far)) ||
         (node.op == Op::matmul_dgrad_f8 && node.has(matmul_dgrad_f8::so_far));
}
bool must_be_in_place(const Node& node) {
  return node.op == Op::sum_squares || node.op == Op::amax || node.op == Op::all_reduce ||
         (node.op == Op::accumulate && node.has(accumulate::so_far));
}

class Assigner {
 public:
  Assigner(const ir::Graph& graph, const ScratchQuery& scratch)
      : graph_(graph),
        scratch_(scratch),
        part_of_(graph.values().size()),
        last_use_(graph.values().size(), -1),
        uses_(graph.values().size(), 0),
        shown_(graph.values().size(), 0),
        made_in_(graph.values().size()) {
    table_.buffer_of.resize(graph.values().size());
    table_.storage_of.resize(graph.values().size());
    table_.offset_in.assign(graph.values().size(), 0);
    table_.rank_stride.assign(graph.values().size(), 0);
    table_.scratch_of.resize(graph.nodes().size());
  }

  BufferTable run() {
    collect_uses();
    find_shown();
    find_first_sums();
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      place_ = static_cast<std::int64_t>(i);
      if (node.op == Op::view || node.op == Op::rank_slice) {
        alias(node);
      } else {
        for (std::size_t output = 0; output < node.outputs.size(); ++output) define(node, output);
      }
      add_scratch(ir::NodeId(i));
    }
    extend_lifetimes();
    return std::move(table_);
  }

 private:
  /// The value whose bytes hold `id`, found through views and joins.
  ValueId holder(ValueId id) const {
    id = graph_.alias_root(id);
    const ValueId whole = part_of_[id.index()];
    return whole.valid() ? whole : id;
  }

  void collect_uses() {
    for (const Node& node : graph_.nodes())
      if (node.op == Op::join)
        for (ValueId part : node.inputs) part_of_[part.index()] = node.out(single::to);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      for (ValueId input : graph_.nodes()[i].inputs) {
        touch(holder(input), release_place(i));
        ++uses_[input.index()];
      }
  }
  /// Finds the values that a team's collectives read on the neighbours: gradients, the values that they are
  /// added up in, and rows of the tensor axis.
  void find_shown() {
    for (const Node& node : graph_.nodes())
      if (ir::is_collective(node.op) && ops::team_of(node) > 1 && !ops::gathers_in_common(node))
        for (std::size_t i = 0; i < node.outputs.size(); ++i)
          shown_[holder(ir::member_input(node, i)).index()] = 1;
    for (auto node = graph_.nodes().rbegin(); node != graph_.nodes().rend(); ++node)
      if ((must_be_in_place(*node) || continues_sum(*node)) &&
          shown_[holder(node->outputs.front()).index()] != 0)
        shown_[holder(node->in(in_place_choices(node->op).front().from)).index()] = 1;
  }
  /// Finds the gradients that are made where their sum belongs, so that nothing has to be copied.
  void find_first_sums() {
    for (const Node& node : graph_.nodes())
      if (const ir::StorageId home = ops::summed_in_place(graph_, node); home.valid()) {
        const ValueId gradient = node.in(accumulate::gradient);
        // A gradient that others read too is copied: the next round's sum would change it under them.
        if (holder(gradient) == gradient && uses_[gradient.index()] == 1 && shown_[gradient.index()] == 0)
          made_in_[gradient.index()] = home;
      }
  }
  void touch(ValueId id, std::int64_t place) {
    last_use_[id.index()] = std::max(last_use_[id.index()], place);
  }

  /// The place until which node i's inputs are held.
  std::int64_t release_place(std::size_t i) const {
    const ir::Attributes& attributes = graph_.nodes()[i].attributes;
    const std::int64_t hold = attributes.has(ir::Attr::hold) ? attributes.integer(ir::Attr::hold) : 0;
    return static_cast<std::int64_t>(i) + hold;
  }

  void alias(const Node& node) {
    const std::size_t from = node.in(single::from).index(), to = node.out(single::to).index();
    const ir::Value& value = graph_.value(node.out(single::to));
    table_.buffer_of[to] = table_.buffer_of[from];
    table_.storage_of[to] = table_.storage_of[from];
    table_.rank_stride[to] = table_.rank_stride[from];
    if (node.op == Op::view) {
      table_.offset_in[to] =
          table_.offset_in[from] +
          node.attributes.integer(ir::Attr::offset) * static_cast<std::int64_t>(size_of(value.type.dtype));
    } else {
      table_.rank_stride[to] += graph_.local_bytes(node.out(single::to));
    }
  }

  void define(const Node& node, std::size_t output) {
    const ValueId id = node.outputs[output];
    const ir::Value& value = graph_.value(id);
    table_.storage_of[id.index()] = value.home;
    if (value.home.valid()) {
      // A cut value in a storage that is held whole stands at its rank's slice.
      if (graph_.local_bytes(id) < graph_.local_bytes(graph_.storage(value.home)))
        table_.rank_stride[id.index()] = graph_.local_bytes(id);
      return;
    }
    if (const ir::StorageId slices = ops::gathered_in_place(graph_, node, output); slices.valid()) {
      // The address of a cut storage is that of this rank's own slice. The first rank's slice lies before it.
      table_.storage_of[id.index()] = slices;
      table_.rank_stride[id.index()] = -graph_.local_bytes(ir::member_input(node, output));
      return;
    }
    const ValueId whole = part_of_[id.index()];
    if (const ir::StorageId home = made_in_[(whole.valid() ? whole : id).index()]; home.valid()) {
      table_.storage_of[id.index()] = home;
      if (whole.valid()) table_.offset_in[id.index()] = part_offset(id, whole);
      return;
    }
    if (whole.valid()) {
      place_part(id, whole);
    } else if (!table_.buffer_of[id.index()].valid() && !take_over(node, output)) {
      if (must_be_in_place(node))
        throw std::logic_error("'" + value.name +
                               "' must be updated in place, but its operand is needed later");
      table_.buffer_of[id.index()] = new_buffer(id);
    }
  }

  /// Places a part in its join's buffer, which begins when the first of the parts is made.
  void place_part(ValueId part, ValueId whole) {
    BufferId& buffer = table_.buffer_of[whole.index()];
    if (!buffer.valid()) buffer = new_buffer(whole);
    table_.buffer_of[part.index()] = buffer;
    table_.offset_in[part.index()] = part_offset(part, whole);
  }
  std::int64_t part_offset(ValueId part, ValueId whole) const {
    const ir::Value& value = graph_.value(whole);
    const Node& join = graph_.node(value.producer);
    std::int64_t offset = 0;
    for (const ValueId* other = join.inputs.data(); *other != part; ++other)
      offset += graph_.local_bytes(*other);
    return offset;
  }

  bool take_over(const Node& node, std::size_t output) {
    const ValueId id = node.outputs[output];
    for (const auto& [to, from] : in_place_choices(node.op)) {
      if (to.at != output || !node.has(from)) continue;
      const ValueId operand = node.in(from);
      const std::size_t o = operand.index();
      const BufferId buffer = table_.buffer_of[o];
      if (!buffer.valid() || sharers(holder(operand)) > 1 || (is_shown(id) && !table_.buffer(buffer).shown) ||
          graph_.local_bytes(operand) != graph_.local_bytes(id))
        continue;
      if (holder(operand) != operand || table_.buffer(buffer).bytes != aligned(graph_.local_bytes(id)))
        continue;
      // The node reads this value as another operand, too.
      if (std::count(node.inputs.begin(), node.inputs.end(), operand) > 1) continue;
      const bool dies_here = ir::is_collective(node.op) ? uses_[o] == 1 : last_use_[o] == place_;
      if (!dies_here) continue;
      table_.buffer_of[id.index()] = buffer;
      return true;
    }
    return false;
  }

  void add_scratch(ir::NodeId node) {
    const std::int64_t bytes = scratch_(graph_, graph_.node(node));
    if (bytes == 0) return;
    Buffer buffer;
    buffer.scratch_of = node;
    buffer.bytes = aligned(bytes);
    buffer.first = place_;
    buffer.last = release_place(node.index());
    table_.scratch_of[node.index()] = add(buffer);
  }

  BufferId add(const Buffer& buffer) {
    table_.buffers.push_back(buffer);
    return BufferId(table_.buffers.size() - 1);
  }

  BufferId new_buffer(ValueId id) {
    Buffer buffer;
    buffer.value = id;
    buffer.bytes = aligned(graph_.local_bytes(id));
    buffer.shared_by = sharers(id);
    if (buffer.shared_by > 1) buffer.memory = MemoryKind::common;
    buffer.shown = is_shown(id);
    buffer.first = place_;
    return add(buffer);
  }

  bool is_shown(ValueId id) const { return shown_[holder(id).index()] != 0; }
  /// For how many ranks the value exists once. A gathered unit is the same on all ranks of a team, and none
  /// writes it.
  int sharers(ValueId id) const {
    const Node& producer = graph_.node(graph_.value(id).producer);
    return ops::gathers_in_common(producer) ? ops::team_of(producer) : 1;
  }

  void extend_lifetimes() {
    for (std::size_t v = 0; v < graph_.values().size(); ++v) {
      const BufferId id = table_.buffer_of[v];
      if (!id.valid()) continue;
      Buffer& buffer = table_.buffer(id);
      const ir::NodeId producer = graph_.values()[v].producer;
      buffer.last = std::max({buffer.last, last_use_[v], static_cast<std::int64_t>(producer.index())});
    }
  }

  const ir::Graph& graph_;
  const ScratchQuery& scratch_;
  std::vector<ValueId> part_of_;        ///< the join that each value is a part of
  std::vector<std::int64_t> last_use_;  ///< by holder: the last place that reads it
  std::vector<int> uses_;               ///< how often nodes read each value under its own name
  std::vector<char> shown_;             ///< by holder: whether neighbours read it
  std::vector<ir::StorageId> made_in_;  ///< by holder: the storage of the first round's sum that it is
  std::int64_t place_ = 0;
  BufferTable table_;
};

}  // namespace

BufferTable assign_buffers(const ir::Graph& graph, const ScratchQuery& scratch) {
  return Assigner(graph, scratch).run();
}

}  // namespace weft::plan
