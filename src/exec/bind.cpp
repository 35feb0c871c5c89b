#include "exec/bind.hpp"

#include <stdexcept>
#include <utility>
#include <vector>

#include "base/exact_sum.hpp"
#include "base/step_block.hpp"
#include "exec/scratch.hpp"
#include "exec/shapes.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/memory.hpp"
#include "kernels/update.hpp"
#include "ops/cost.hpp"

namespace weft::exec {
namespace {

using ir::Attr;
using ir::Node;
using ir::Op;
using ir::ValueId;

/// Binds one node; its arguments are looked up once.
class Binding {
 public:
  Binding(const ir::Graph& graph, const Node& node, const Device& device, const Locate& locate,
          std::byte* scratch)
      : graph_(graph), node_(node), device_(device), locate_(locate), scratch_(scratch) {}

  Kernel kernel() const {
    kernels::Space& space = device_.space;
    std::byte* const s = scratch_;
    const DType t = node_.inputs.empty() ? DType::f32 : dtype_of(graph_, node_.inputs[0]);
    switch (node_.op) {
      case Op::embedding:
        return [&space, shape = embedding_shape(graph_, node_), t = dtype_of(graph_, node_.inputs[1]),
                tokens = in<std::int32_t>(0), table = in(1),
                y = out(0)] { kernels::embedding(space, shape, t, tokens, table, y); };
      case Op::embedding_grad:
        return [&space, shape = embedding_grad_shape(graph_, node_), t = dtype_of(graph_, node_.inputs[1]),
                tokens = in<std::int32_t>(0), dy = in(1), dt = out_type(0), dw = out(0),
                s] { kernels::embedding_grad(space, shape, t, tokens, dy, dt, dw, s); };
      case Op::rms_norm:
        return [&space, shape = row_shape(graph_, node_.inputs[0]), t, x = in(0), w = in(1),
                eps = real(Attr::eps), y = out(0),
                rstd = out<float>(1)] { kernels::rms_norm(space, shape, t, x, w, eps, y, rstd); };
      case Op::add_rms_norm:
        return [&space, shape = row_shape(graph_, node_.inputs[0]), t, x = in(0), branch = in(1), w = in(2),
                eps = real(Attr::eps), sum = out(0), y = out(1), rstd = out<float>(2)] {
          kernels::add_rms_norm(space, shape, t, x, branch, w, eps, sum, y, rstd);
        };
      case Op::rms_norm_grad: return rms_norm_grad(t);
      case Op::matmul_dgrad: return matmul_dgrad();
      case Op::matmul:
      case Op::matmul_wgrad:
        return [&space, &matmul = device_.matmuls.get(matmul_spec(graph_, node_)), a = in(0), b = in(1),
                c = out(0), s] { matmul.run(space, a, b, c, s); };
      case Op::rope: return rope(t);
      case Op::rope_split:
        return [&space, shape = qkv_shape(graph_, node_), t, qkv = in(0), positions = in<std::int32_t>(1),
                table = in<float>(2), q = out(0), k = out(1),
                v = out(2)] { kernels::rope_split(space, shape, t, qkv, positions, table, q, k, v); };
      case Op::rope_join:
        return [&space, shape = qkv_shape(graph_, node_), t, dq = in(0), dk = in(1), dv = in(2),
                positions = in<std::int32_t>(3), table = in<float>(4),
                dqkv = out(0)] { kernels::rope_join(space, shape, t, dq, dk, dv, positions, table, dqkv); };
      case Op::attention:
        return [&space, shape = attention_shape(graph_, node_), t, q = in(0), k = in(1), v = in(2),
                o = out(0), lse = out<float>(1), positions = positions(3),
                s] { kernels::attention(space, shape, t, q, k, v, o, lse, s, positions); };
      case Op::attention_grad: return attention_grad(t);
      case Op::swiglu: return swiglu(t);
      case Op::swiglu_grad: return swiglu_grad(t);
      case Op::add:
        return [&space, n = elements(node_.outputs[0]), t, a = in(0), b = in(1), y = out(0)] {
          kernels::add(space, n, t, a, b, y);
        };
      case Op::cross_entropy:
        return [&space, shape = loss_shape(graph_, node_), t, x = in(0), y = in<std::int32_t>(1),
                lse = out<float>(0), totals = out<double>(1),
                s] { kernels::cross_entropy(space, shape, t, x, y, lse, totals, s); };
      case Op::cross_entropy_grad:
        return [&space, shape = loss_shape(graph_, node_), t, x = in(0), y = in<std::int32_t>(1),
                lse = in<float>(2),
                dx = out(0)] { kernels::cross_entropy_grad(space, shape, t, x, y, lse, dx); };
      case Op::linear_cross_entropy:
        return
            [&space, &loss = device_.matmuls.get(linear_loss_spec(graph_, node_)), h = in(0), w = in(1),
             y = in<std::int32_t>(2), totals = out<double>(0), s] { loss.loss(space, h, w, y, totals, s); };
      case Op::linear_cross_entropy_grad:
        return [&space, &loss = device_.matmuls.get(linear_loss_spec(graph_, node_)), h = in(0), w = in(1),
                y = in<std::int32_t>(2), totals = out<double>(0), dh = out(1), dw = out(2),
                s] { loss.gradients(space, h, w, y, totals, dh, dw, s); };
      case Op::join: return pad();
      case Op::zeros:
        return [&space, p = out(0), n = static_cast<std::size_t>(graph_.local_bytes(node_.outputs[0]))] {
          kernels::fill_zero(space, p, n);
        };
      case Op::accumulate: return accumulate(t);
      case Op::sum_squares:
        return [&space, n = elements(node_.inputs[0]), g = in<float>(0), limbs = out<std::int64_t>(0)] {
          kernels::sum_squares(space, n, g, limbs);
        };
      case Op::reduce_totals: return reduce_totals();
      case Op::clip_scale:
        return [&space, limbs = in<std::int64_t>(0), totals = in<double>(1), max = real(Attr::max_norm),
                y = out<float>(0)] { kernels::clip_scale(space, limbs, totals, max, y); };
      case Op::adamw: return adamw();
      case Op::state:
      case Op::view:
      case Op::rank_slice:
      case Op::all_gather:
      case Op::reduce_scatter:
      case Op::all_reduce: break;
    }
    throw std::logic_error(std::string(name_of(node_.op)) + " is not a kernel");
  }

  Collective collective() const {
    comm::Channel* const channel = channel_of(device_, node_.lane);
    if (channel == nullptr) throw std::logic_error("the plan has collectives, but there is no channel");
    if (channel->size() != ops::ranks_of(graph_, node_))
      throw std::logic_error("the channel " + channel->name() + " is not over the axis of the collective");
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
  template <class T = std::byte>
  const T* in(std::size_t i) const {
    return reinterpret_cast<const T*>(locate_(node_.inputs[i]));
  }
  /// The positions that attention within documents reads; null for other attention.
  const std::int32_t* positions(std::size_t i) const {
    return i < node_.inputs.size() ? in<std::int32_t>(i) : nullptr;
  }
  const std::byte* in_or_null(std::size_t i) const { return i < node_.inputs.size() ? in(i) : nullptr; }
  template <class T = std::byte>
  T* out(std::size_t i) const {
    return reinterpret_cast<T*>(locate_(node_.outputs[i]));
  }
  DType out_type(std::size_t i) const { return dtype_of(graph_, node_.outputs[i]); }
  std::int64_t elements(ValueId v) const { return graph_.local_elements(v); }
  float real(Attr attr) const { return static_cast<float>(node_.attributes.real(attr)); }

  /// A sum over all ranks in the order of the ranks. Each rank adds up its part of the vectors, and then all
  /// gather the parts. A shard divides by the ranks, because units are padded to the whole mesh.
  Collective ordered_sum(comm::Channel& channel) const {
    std::vector<std::pair<std::byte*, comm::ReduceScatter>> members;  // each member with its whole vector
    std::byte* scratch = scratch_;
    for (std::size_t i = 0; i < node_.outputs.size(); ++i) {
      if (in(i) != out(i)) throw std::logic_error("a sum over replicas is not in place");
      comm::ReduceScatter what;
      what.in = in(i);
      what.count = elements(node_.outputs[i]) / channel.size();
      what.out = out(i) + channel.rank() * what.count * static_cast<std::int64_t>(sizeof(float));
      what.scratch = scratch;
      scratch += member_scratch_bytes(graph_, node_, i);
      members.emplace_back(out(i), what);
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
    const DType t = dtype_of(graph_, node_.inputs[i]);
    const std::int64_t count = elements(node_.inputs[i]);
    const comm::UsedRows* const rows = used_rows();
    if (node_.op == Op::all_gather)
      return [&channel, t, count, rows, x = in(i), y = out(i)](auto deps) {
        return rows == nullptr ? channel.all_gather(deps, x, y, count, t)
                               : channel.all_gather_rows(deps, x, y, count, t, *rows);
      };
    if (node_.op == Op::all_reduce)
      return [&channel, t, count, y = out(i)](auto deps) {
        return channel.all_reduce(deps, y, count, t, comm::ReduceOp::sum);
      };
    comm::ReduceScatter what;
    what.in = in(i);
    what.out = out(i);
    what.scratch = scratch;
    what.count = elements(node_.outputs[i]);
    what.wire = t;
    what.out_type = out_type(i);
    what.write = node_.inputs.size() > node_.outputs.size() ? WriteMode::add : WriteMode::replace;
    what.order = reduce_order(node_);
    what.rows = rows;
    return [&channel, what](auto deps) { return channel.reduce_scatter(deps, what); };
  }

  const comm::UsedRows* used_rows() const {
    if (!node_.attributes.has(Attr::used)) return nullptr;
    if (device_.rows == nullptr) throw std::logic_error("the plan sends rows, but nobody says which");
    return &(*device_.rows)[static_cast<std::size_t>(node_.round)];
  }

  /// The gradient dx, perhaps added to another. That other one stands in dx's place already, unless it is
  /// still needed elsewhere.
  Kernel matmul_dgrad() const {
    const std::byte* const sum = in_or_null(2);
    const auto bytes = static_cast<std::size_t>(graph_.local_bytes(node_.outputs[0]));
    return [&space = device_.space, &matmul = device_.matmuls.get(matmul_spec(graph_, node_)), dy = in(0),
            w = in(1), dx = out(0), s = scratch_, sum, bytes] {
      if (sum != nullptr && sum != dx) kernels::copy(space, dx, sum, bytes);
      matmul.run(space, dy, w, dx, s);
    };
  }

  Kernel rms_norm_grad(DType t) const {
    const kernels::RmsNormGrad g{in(0),  in(1),  in<float>(2), in(3),   in_or_null(4),
                                 out(0), out(1), out_type(1),  scratch_};
    return [&space = device_.space, shape = row_shape(graph_, node_.inputs[0]), t, g] {
      kernels::rms_norm_grad(space, shape, t, g);
    };
  }

  Kernel rope(DType t) const {
    const auto direction = node_.attributes.has(Attr::inverse) ? kernels::RopeDirection::backward
                                                               : kernels::RopeDirection::forward;
    return [&space = device_.space, shape = rope_shape(graph_, node_), t, x = in(0),
            positions = in<std::int32_t>(1), table = in<float>(2), y = out(0),
            direction] { kernels::rope(space, shape, t, x, positions, table, y, direction); };
  }

  /// How many bytes lie between gate and up where they stand side by side.
  static std::int64_t beside(const kernels::SwigluShape& shape, DType t) {
    return shape.dim * static_cast<std::int64_t>(size_of(t));
  }
  Kernel swiglu(DType t) const {
    const kernels::SwigluShape shape = swiglu_shape(graph_, node_, node_.outputs[0]);
    const std::byte* const up = node_.inputs.size() > 1 ? in(1) : in(0) + beside(shape, t);
    return [&space = device_.space, shape, t, gate = in(0), up, y = out(0)] {
      kernels::swiglu(space, shape, t, gate, up, y);
    };
  }
  Kernel swiglu_grad(DType t) const {
    const kernels::SwigluShape shape = swiglu_shape(graph_, node_, node_.inputs.back());
    const bool apart = node_.outputs.size() > 1;
    const std::byte* const up = apart ? in(1) : in(0) + beside(shape, t);
    std::byte* const dup = apart ? out(1) : out(0) + beside(shape, t);
    return [&space = device_.space, shape, t, gate = in(0), up, dy = in(node_.inputs.size() - 1),
            dgate = out(0), dup] { kernels::swiglu_grad(space, shape, t, gate, up, dy, dgate, dup); };
  }

  Kernel attention_grad(DType t) const {
    const kernels::AttentionGrad g{in(0),  in(1),  in(2),  in(3),    in<float>(4), in(5),
                                   out(0), out(1), out(2), scratch_, positions(6)};
    return [&space = device_.space, shape = attention_shape(graph_, node_), t, g] {
      kernels::attention_grad(space, shape, t, g);
    };
  }

  /// Zeroes a join's padding. The parts stand in the join already; the padding must be zero, because it is
  /// summed and squared with the rest.
  Kernel pad() const {
    const ir::Value& whole = graph_.value(node_.outputs[0]);
    if (!whole.unit.valid()) return [] {};
    const auto size = static_cast<std::int64_t>(size_of(whole.type.dtype));
    const std::int64_t begin = graph_.unit(whole.unit).elements * size,
                       end = graph_.local_bytes(node_.outputs[0]);
    return [&space = device_.space, p = out(0) + begin, n = static_cast<std::size_t>(end - begin)] {
      kernels::fill_zero(space, p, n);
    };
  }

  Kernel accumulate(DType t) const {
    const auto mode = node_.inputs.size() > 1 ? WriteMode::add : WriteMode::replace;
    return [&space = device_.space, n = elements(node_.outputs[0]), t, g = in(0), acc = out<float>(0), mode] {
      kernels::accumulate(space, n, t, g, acc, mode);
    };
  }

  /// Sums the totals of all rounds and ranks. Its input is [rounds, 2] of one rank, or [ranks, rounds, 2] of
  /// all; with one round it is [2] or [ranks, 2].
  Kernel reduce_totals() const {
    const Shape shape = graph_.local_shape(node_.inputs[0]);
    const bool gathered = graph_.node(graph_.value(node_.inputs[0]).producer).op == Op::all_gather;
    const std::int64_t ranks = gathered ? shape[0] : 1;
    return [&space = device_.space, ranks, rounds = element_count(shape) / 2 / ranks, x = in<double>(0),
            y = out<double>(0)] { kernels::reduce_totals(space, ranks, rounds, x, y); };
  }

  Kernel adamw() const {
    kernels::AdamW adam{};
    adam.beta1 = node_.attributes.real(Attr::beta1);
    adam.beta2 = node_.attributes.real(Attr::beta2);
    adam.eps = real(Attr::eps);
    adam.scale = in<float>(4);
    adam.step = in<StepBlock>(5);
    const bool writes_param = node_.outputs.size() > 3;
    return [&space = device_.space, n = elements(node_.outputs[0]), adam, g = in<float>(0),
            master = out<float>(0), m = out<float>(1), v = out<float>(2),
            t = writes_param ? out_type(3) : DType::f32,
            param = writes_param ? static_cast<void*>(out(3)) : nullptr] {
      kernels::adamw(space, n, adam, g, master, m, v, t, param);
    };
  }

  const ir::Graph& graph_;
  const Node& node_;
  const Device& device_;
  const Locate& locate_;
  std::byte* scratch_;
};

}  // namespace

Kernel bind_kernel(const ir::Graph& graph, const Node& node, const Device& device, const Locate& locate,
                   std::byte* scratch) {
  return Binding(graph, node, device, locate, scratch).kernel();
}

Collective bind_collective(const ir::Graph& graph, const Node& node, const Device& device,
                           const Locate& locate, std::byte* scratch) {
  return Binding(graph, node, device, locate, scratch).collective();
}

}  // namespace weft::exec
