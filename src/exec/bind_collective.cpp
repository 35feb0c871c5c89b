#include <stdexcept>
#include <utility>
#include <vector>

#include "exec/bind.hpp"
#include "exec/scratch.hpp"
#include "exec/shapes.hpp"
#include "ops/cost.hpp"

namespace weft::exec {
namespace {

using ir::Attr;
using ir::Node;
using ir::Op;
using ir::ValueId;

/// Binds one node to a collective; its arguments are looked up once.
class CollectiveBinding {
 public:
  CollectiveBinding(const ir::Graph& graph, const Node& node, const Device& device, const Locate& locate,
                    std::byte* scratch)
      : graph_(graph), node_(node), device_(device), locate_(locate), scratch_(scratch) {}

  Collective collective() const {
    comm::Channel* const channel = device_.channels[node_.lane];
    if (channel == nullptr) throw std::logic_error("the plan has collectives, but there is no channel");
    if (channel->size() != (ir::is_message(node_.op) ? 2 : ops::ranks_of(graph_, node_)))
      throw std::logic_error("the channel " + channel->name() + " is not over the axis of the collective");
    if (ir::is_message(node_.op)) return message(*channel);
    if (is_ordered_sum(graph_, node_)) return ordered_sum(*channel);
    if (node_.outputs.size() == 1) return member(*channel, 0, scratch_);
    std::vector<Collective> members;
    std::byte* scratch = scratch_;
    for (std::size_t i = 0; i < node_.outputs.size(); ++i) {
      members.push_back(member(*channel, i, scratch));
      if (node_.op == Op::reduce_scatter) scratch += member_scratch_bytes(graph_, node_, i);
    }
    return [channel, members = std::move(members)](auto deps) {
      comm::Event last;
      channel->group_begin();
      for (const Collective& one : members) last = one(deps);
      channel->group_end();
      return last;
    };
  }

 private:
  /// A message to the only other rank of the channel.
  Collective message(comm::Channel& channel) const {
    const ValueId value = ir::moved_value(node_);
    const std::int64_t bytes = graph_.local_bytes(value);
    const int peer = 1 - channel.rank();
    if (node_.op == Op::send)
      return [&channel, x = locate_(value), bytes, peer](auto deps) {
        return channel.send(deps, x, bytes, peer);
      };
    return
        [&channel, x = locate_(value), bytes, peer](auto deps) { return channel.recv(deps, x, bytes, peer); };
  }

  /// A sum over all ranks in the order of the ranks. Each rank adds up its part of the vectors, and then all
  /// gather the parts. A shard divides by the ranks, because units are padded to the whole mesh.
  Collective ordered_sum(comm::Channel& channel) const {
    std::vector<std::pair<std::byte*, comm::ReduceScatter>> members;  // each member with its whole vector
    std::byte* scratch = scratch_;
    for (std::size_t i = 0; i < node_.outputs.size(); ++i) {
      std::byte* const whole = locate_(node_.outputs[i]);
      if (locate_(ir::member_input(node_, i)) != whole)
        throw std::logic_error("a sum over replicas is not in place");
      comm::ReduceScatter what;
      what.in = whole;
      what.count = graph_.local_elements(node_.outputs[i]) / channel.size();
      what.out = whole + channel.rank() * what.count * static_cast<std::int64_t>(sizeof(float));
      what.scratch = scratch;
      scratch += member_scratch_bytes(graph_, node_, i);
      members.emplace_back(whole, what);
    }
    return [&channel, members = std::move(members)](auto deps) {
      channel.group_begin();
      for (const auto& [whole, part] : members) channel.reduce_scatter(deps, part);
      channel.group_end();
      comm::Event last;
      channel.group_begin();
      for (const auto& [whole, part] : members)
        last = channel.all_gather({}, part.out, whole, part.count, DType::f32);
      channel.group_end();
      return last;
    };
  }

  /// One member of a collective, with its arguments.
  Collective member(comm::Channel& channel, std::size_t i, std::byte* scratch) const {
    const ValueId from = ir::member_input(node_, i), to = node_.outputs[i];
    const DType t = dtype_of(graph_, from);
    const std::int64_t count = graph_.local_elements(from);
    const comm::UsedRows* const rows = used_rows();
    if (node_.op == Op::all_gather)
      return [&channel, t, count, rows, x = locate_(from), y = locate_(to)](auto deps) {
        return rows == nullptr ? channel.all_gather(deps, x, y, count, t)
                               : channel.all_gather_rows(deps, x, y, count, t, *rows);
      };
    if (node_.op == Op::all_reduce)
      return [&channel, t, count, y = locate_(to),
              op = node_.attributes.has(Attr::largest) ? comm::ReduceOp::max : comm::ReduceOp::sum](
                 auto deps) { return channel.all_reduce(deps, y, count, t, op); };
    comm::ReduceScatter what;
    what.in = locate_(from);
    what.out = locate_(to);
    what.scratch = scratch;
    what.count = graph_.local_elements(to);
    what.wire = t;
    what.out_type = dtype_of(graph_, to);
    what.write = ir::adds_to_sum(node_) ? WriteMode::add : WriteMode::replace;
    what.order = reduce_order(node_);
    what.rows = rows;
    return [&channel, what](auto deps) { return channel.reduce_scatter(deps, what); };
  }

  const comm::UsedRows* used_rows() const {
    if (!node_.attributes.has(Attr::used)) return nullptr;
    if (device_.rows == nullptr) throw std::logic_error("the plan sends rows, but nobody says which");
    return &(*device_.rows)[static_cast<std::size_t>(node_.round)];
  }

  const ir::Graph& graph_;
  const Node& node_;
  const Device& device_;
  const Locate& locate_;
  std::byte* scratch_;
};

}  // namespace

Collective bind_collective(const ir::Graph& graph, const Node& node, const Device& device,
                           const Locate& locate, std::byte* scratch) {
  return CollectiveBinding(graph, node, device, locate, scratch).collective();
}

}  // namespace weft::exec
