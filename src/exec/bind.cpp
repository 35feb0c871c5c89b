#include "exec/bind.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/exact_sum.hpp"
#include "base/step_block.hpp"
#include "exec/shapes.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/float8.hpp"
#include "kernels/memory.hpp"
#include "kernels/update.hpp"

namespace weft::exec {
namespace {

using ir::Attr;
using ir::In;
using ir::Node;
using ir::Op;
using ir::Out;
using ir::ValueId;
using namespace ir::operand;

/// Binds one node to a kernel; its arguments are looked up once.
class Binding {
 public:
  Binding(const ir::Graph& graph, const Node& node, const Device& device, const Locate& locate,
          std::byte* scratch)
      : graph_(graph), node_(node), device_(device), locate_(locate), scratch_(scratch) {}

  Kernel kernel() const {
    kernels::Space& space = device_.space;
    std::byte* const s = scratch_;
    switch (node_.op) {
      case Op::embedding:
        return
            [&space, shape = embedding_shape(graph_, node_, device_.tensor_rank), t = type(embedding::table),
             tokens = in<std::int32_t>(embedding::tokens), table = in(embedding::table),
             y = out(embedding::y)] { kernels::embedding(space, shape, t, tokens, table, y); };
      case Op::embedding_grad:
        return [&space, shape = embedding_grad_shape(graph_, node_, device_.tensor_rank),
                t = type(embedding_grad::dy), tokens = in<std::int32_t>(embedding_grad::tokens),
                dy = in(embedding_grad::dy), dt = type(embedding_grad::dtable),
                dtable = out(embedding_grad::dtable),
                s] { kernels::embedding_grad(space, shape, t, tokens, dy, dt, dtable, s); };
      case Op::rms_norm:
        return [&space, shape = rows(rms_norm::x), t = type(rms_norm::x), x = in(rms_norm::x),
                w = in(rms_norm::w), w_type = type(rms_norm::w), eps = real(Attr::eps), y = out(rms_norm::y),
                rstd = out<float>(rms_norm::rstd)] {
          kernels::rms_norm(space, shape, t, x, w, w_type, eps, y, rstd);
        };
      case Op::add_rms_norm:
        return [&space, shape = rows(add_rms_norm::x), t = type(add_rms_norm::x), x = in(add_rms_norm::x),
                branch = in(add_rms_norm::branch), w = in(add_rms_norm::w), w_type = type(add_rms_norm::w),
                eps = real(Attr::eps), sum = out(add_rms_norm::sum), y = out(add_rms_norm::y),
                rstd = out<float>(add_rms_norm::rstd)] {
          kernels::add_rms_norm(space, shape, t, x, branch, w, w_type, eps, sum, y, rstd);
        };
      case Op::rms_norm_grad: return rms_norm_grad();
      case Op::matmul:
        return [&space, &product = device_.matmuls.get(matmul_spec(graph_, node_)), x = in(matmul::x),
                w = in(matmul::w), y = out(matmul::y), s] { product.run(space, x, w, y, s); };
      case Op::matmul_dgrad: return matmul_dgrad();
      case Op::matmul_wgrad:
        return [&space, &product = device_.matmuls.get(matmul_spec(graph_, node_)), dy = in(matmul_wgrad::dy),
                x = in(matmul_wgrad::x), dw = out(matmul_wgrad::dw), s] { product.run(space, dy, x, dw, s); };
      case Op::amax:
        return [&space, runs = runs_of_unit(amax::master), master = in<float>(amax::master),
                largest = out<float>(amax::largest)] { kernels::amax(space, runs, master, largest); };
      case Op::float8_scales:
        return [&space, n = elements(float8_scales::scales), largest = in<float>(float8_scales::largest),
                scales = out<float>(float8_scales::scales)] {
          kernels::float8_scales(space, n, largest, scales);
        };
      case Op::quantize_unit: return quantize_unit();
      case Op::quantize:
        return [&space, shape = rows(quantize::x), t = type(quantize::x), x = in(quantize::x),
                format = type(quantize::x8), x8 = out(quantize::x8), scale = out<float>(quantize::scale),
                all = node_.attributes.has(Attr::tensorwise)] {
          (all ? kernels::quantize_tensor : kernels::quantize_rows)(space, shape.rows, shape.dim, t, x,
                                                                    format, x8, scale);
        };
      case Op::matmul_f8:
      case Op::matmul_dgrad_f8: return product_in_float8();
      case Op::rope: return rope();
      case Op::rope_split:
        return
            [&space, shape = qkv_shape(graph_, node_), t = type(rope_split::qkv), qkv = in(rope_split::qkv),
             positions = in<std::int32_t>(rope_split::positions), table = in<float>(rope_split::table),
             q = out(rope_split::q), k = out(rope_split::k), v = out(rope_split::v)] {
              kernels::rope_split(space, shape, t, qkv, positions, table, q, k, v);
            };
      case Op::rope_join:
        return [&space, shape = qkv_shape(graph_, node_), t = type(rope_join::dq), dq = in(rope_join::dq),
                dk = in(rope_join::dk), dv = in(rope_join::dv),
                positions = in<std::int32_t>(rope_join::positions), table = in<float>(rope_join::table),
                dqkv = out(rope_join::dqkv)] {
          kernels::rope_join(space, shape, t, dq, dk, dv, positions, table, dqkv);
        };
      case Op::attention: return attention();
      case Op::attention_grad: return attention_grad();
      case Op::merge_sections:
        return [&space, shape = section_shape(graph_, node_), t = type(single::from),
                sections = in(single::from), sequences = out(single::to)] {
          kernels::merge_sections(space, shape, t, sections, sequences);
        };
      case Op::split_sections:
        return [&space, shape = section_shape(graph_, node_), t = type(single::from),
                sequences = in(single::from), sections = out(single::to)] {
          kernels::split_sections(space, shape, t, sequences, sections);
        };
      case Op::swiglu: return swiglu();
      case Op::swiglu_grad: return node_.has(swiglu_grad::dy) ? swiglu_grad() : swiglu_grad_beside();
      case Op::add:
        return [&space, n = elements(add::sum), t = type(add::a), a = in(add::a), b = in(add::b),
                sum = out(add::sum)] { kernels::add(space, n, t, a, b, sum); };
      case Op::cross_entropy_part:
        return
            [&space, shape = loss(), t = type(cross_entropy_part::logits),
             logits = in(cross_entropy_part::logits), targets = in<std::int32_t>(cross_entropy_part::targets),
             parts = out<float>(cross_entropy_part::parts)] {
              kernels::cross_entropy_part(space, shape, t, logits, targets, parts);
            };
      case Op::cross_entropy: return node_.has(cross_entropy::parts) ? loss_of_parts() : cross_entropy();
      case Op::cross_entropy_grad: return cross_entropy_grad();
      case Op::linear_cross_entropy:
        return [&space, &loss = device_.matmuls.get(linear_loss_spec(graph_, node_)),
                h = in(linear_cross_entropy::h), w = in(linear_cross_entropy::w),
                targets = in<std::int32_t>(linear_cross_entropy::targets),
                totals = out<double>(linear_cross_entropy::totals),
                s] { loss.loss(space, h, w, targets, totals, s); };
      case Op::linear_cross_entropy_grad:
        return [&space, &loss = device_.matmuls.get(linear_loss_spec(graph_, node_)),
                h = in(linear_cross_entropy::h), w = in(linear_cross_entropy::w),
                targets = in<std::int32_t>(linear_cross_entropy::targets),
                totals = out<double>(linear_cross_entropy::totals), dh = out(linear_cross_entropy::dh),
                dw = out(linear_cross_entropy::dw),
                s] { loss.gradients(space, h, w, targets, totals, dh, dw, s); };
      case Op::join: return pad();
      case Op::zeros:
        return [&space, p = out(single::to),
                n = static_cast<std::size_t>(graph_.local_bytes(node_.out(single::to)))] {
          kernels::fill_zero(space, p, n);
        };
      case Op::accumulate: return accumulate();
      case Op::sum_squares:
        // The sum stands in place: one that another rank counts needs nothing done.
        if (node_.attributes.has(Attr::copies) &&
            device_.tensor_rank % node_.attributes.integer(Attr::copies) > 0)
          return [] {};
        return [&space, n = elements(sum_squares::gradient), g = in<float>(sum_squares::gradient),
                limbs = out<std::int64_t>(sum_squares::sum)] { kernels::sum_squares(space, n, g, limbs); };
      case Op::reduce_totals: return reduce_totals();
      case Op::clip_scale:
        return [&space, limbs = in<std::int64_t>(clip_scale::squares),
                totals = in<double>(clip_scale::totals), max = real(Attr::max_norm),
                y = out<float>(clip_scale::scale)] { kernels::clip_scale(space, limbs, totals, max, y); };
      case Op::adamw: return adamw();
      case Op::state:
      case Op::view:
      case Op::rank_slice:
      case Op::all_gather:
      case Op::reduce_scatter:
      case Op::all_reduce:
      case Op::send:
      case Op::recv: break;
    }
    throw std::logic_error(std::string(name_of(node_.op)) + " is not a kernel");
  }

 private:
  template <class T = std::byte>
  const T* in(In operand) const {
    return reinterpret_cast<const T*>(locate_(node_.in(operand)));
  }
  template <class T = std::byte>
  const T* in_or_null(In operand) const {
    return node_.has(operand) ? in<T>(operand) : nullptr;
  }
  template <class T = std::byte>
  T* out(Out operand) const {
    return reinterpret_cast<T*>(locate_(node_.out(operand)));
  }
  DType type(In operand) const { return dtype_of(graph_, node_.in(operand)); }
  DType type(Out operand) const { return dtype_of(graph_, node_.out(operand)); }
  std::int64_t elements(In operand) const { return graph_.local_elements(node_.in(operand)); }
  std::int64_t elements(Out operand) const { return graph_.local_elements(node_.out(operand)); }
  kernels::RowShape rows(In operand) const { return row_shape(graph_, node_.in(operand)); }
  float real(Attr attr) const { return static_cast<float>(node_.attributes.real(attr)); }

  /// The gradient dx, perhaps added to another. That other one stands in dx's place already, unless it is
  /// still needed elsewhere.
  Kernel matmul_dgrad() const {
    const std::byte* const so_far = in_or_null(matmul_dgrad::so_far);
    const auto bytes = static_cast<std::size_t>(graph_.local_bytes(node_.out(matmul_dgrad::dx)));
    return [&space = device_.space, &product = device_.matmuls.get(matmul_spec(graph_, node_)),
            dy = in(matmul_dgrad::dy), w = in(matmul_dgrad::w), dx = out(matmul_dgrad::dx), s = scratch_,
            so_far, bytes] {
      if (so_far != nullptr && so_far != dx) kernels::copy(space, dx, so_far, bytes);
      product.run(space, dy, w, dx, s);
    };
  }

  /// The stretches of this rank's part of a unit that have one scale: its matrices.
  std::vector<kernels::ScaledRun> runs_of_unit(In operand) const {
    const ir::Value& value = graph_.value(node_.in(operand));
    const Unit& unit = graph_.unit(value.unit);
    const bool cut = std::any_of(value.placement.begin(), value.placement.end(),
                                 [](const auto& p) { return p.kind == ir::Placement::Kind::shard; });
    const std::int64_t held = elements(operand), slot = node_.attributes.integer(Attr::slot),
                       first = cut ? device_.data_rank * held : 0;
    std::vector<kernels::ScaledRun> runs;
    for (const Parameter& p : unit.parameters) {
      const std::int64_t begin = std::max(p.offset, first),
                         end = std::min(p.offset + element_count(p.shape), first + held);
      if (begin < end) runs.push_back({begin - first, end - begin, slot + (p.in_first ? 1 : 0)});
    }
    return runs;
  }
  Kernel quantize_unit() const {
    const auto bytes = static_cast<std::size_t>(graph_.local_bytes(node_.out(quantize_unit::unit)));
    return [&space = device_.space, runs = runs_of_unit(quantize_unit::master),
            master = in<float>(quantize_unit::master), scales = in<float>(quantize_unit::scales),
            unit = out(quantize_unit::unit), bytes] {
      kernels::fill_zero(space, unit, bytes);  // padding is sent, too
      kernels::quantize_runs(space, runs, master, scales, unit);
    };
  }

  Kernel product_in_float8() const {
    const std::byte* const so_far = in_or_null(matmul_dgrad_f8::so_far);
    const auto bytes = static_cast<std::size_t>(graph_.local_bytes(node_.out(matmul_f8::y)));
    return [&space = device_.space, &product = device_.matmuls.get_float8(graph_, node_),
            x8 = in(matmul_f8::x8), scale = in<float>(matmul_f8::scale), w8 = in(matmul_f8::w8),
            scale_of_w = in<float>(matmul_f8::scales) + node_.attributes.integer(Attr::slot), so_far,
            y = out(matmul_f8::y), bytes, s = scratch_] {
      if (so_far != nullptr && so_far != y) kernels::copy(space, y, so_far, bytes);
      product.run(space, x8, scale, w8, scale_of_w, y, s);
    };
  }

  Kernel rms_norm_grad() const {
    kernels::RmsNormGrad g{};
    g.x = in(rms_norm_grad::x);
    g.w = in(rms_norm_grad::w);
    g.w_type = type(rms_norm_grad::w);
    g.rstd = in<float>(rms_norm_grad::rstd);
    g.dy = in(rms_norm_grad::dy);
    g.sum = in_or_null(rms_norm_grad::so_far);
    g.dx = out(rms_norm_grad::dx);
    g.dw = out(rms_norm_grad::dw);
    g.dw_type = type(rms_norm_grad::dw);
    g.scratch = scratch_;
    return [&space = device_.space, shape = rows(rms_norm_grad::x), t = type(rms_norm_grad::x), g] {
      kernels::rms_norm_grad(space, shape, t, g);
    };
  }

  Kernel rope() const {
    const auto direction = node_.attributes.has(Attr::inverse) ? kernels::RopeDirection::backward
                                                               : kernels::RopeDirection::forward;
    return [&space = device_.space, shape = rope_shape(graph_, node_), t = type(rope::x), x = in(rope::x),
            positions = in<std::int32_t>(rope::positions), table = in<float>(rope::table), y = out(rope::y),
            direction] { kernels::rope(space, shape, t, x, positions, table, y, direction); };
  }

  /// How many bytes lie between gate and up where they stand side by side.
  static std::int64_t beside(const kernels::SwigluShape& shape, DType t) {
    return shape.dim * static_cast<std::int64_t>(size_of(t));
  }
  Kernel swiglu() const {
    const DType t = type(swiglu::gate);
    const kernels::SwigluShape shape = swiglu_shape(graph_, node_.in(swiglu::gate), node_.out(swiglu::y));
    const std::byte* const gate = in(swiglu::gate);
    const std::byte* const up = node_.has(swiglu::up) ? in(swiglu::up) : gate + beside(shape, t);
    return [&space = device_.space, shape, t, gate, up, y = out(swiglu::y)] {
      kernels::swiglu(space, shape, t, gate, up, y);
    };
  }
  Kernel swiglu_grad() const {
    const kernels::SwigluShape shape =
        swiglu_shape(graph_, node_.in(swiglu_grad::gate), node_.in(swiglu_grad::dy));
    return [&space = device_.space, shape, t = type(swiglu_grad::gate), gate = in(swiglu_grad::gate),
            up = in(swiglu_grad::up), dy = in(swiglu_grad::dy), dgate = out(swiglu_grad::dgate),
            dup = out(swiglu_grad::dup)] { kernels::swiglu_grad(space, shape, t, gate, up, dy, dgate, dup); };
  }
  Kernel swiglu_grad_beside() const {
    const DType t = type(swiglu_grad_beside::gate_up);
    const kernels::SwigluShape shape =
        swiglu_shape(graph_, node_.in(swiglu_grad_beside::gate_up), node_.in(swiglu_grad_beside::dy));
    return
        [&space = device_.space, shape, t, gate = in(swiglu_grad_beside::gate_up),
         dy = in(swiglu_grad_beside::dy), dgate = out(swiglu_grad_beside::dgate_up), up = beside(shape, t)] {
          kernels::swiglu_grad(space, shape, t, gate, gate + up, dy, dgate, dgate + up);
        };
  }

  /// Attention compiles here what it runs, because a step must not.
  Kernel attention() const {
    const kernels::AttentionShape shape = attention_shape(graph_, node_, device_.context_rank);
    const DType t = type(attention::q);
    kernels::prepare_attention(shape, t, node_.has(attention::positions));
    return [&space = device_.space, shape, t, q = in(attention::q), k = in(attention::k),
            v = in(attention::v), o = out(attention::o), lse = out<float>(attention::lse),
            positions = in_or_null<std::int32_t>(attention::positions),
            s = scratch_] { kernels::attention(space, shape, t, q, k, v, o, lse, s, positions); };
  }

  Kernel attention_grad() const {
    kernels::AttentionGrad g{};
    g.q = in(attention_grad::q);
    g.k = in(attention_grad::k);
    g.v = in(attention_grad::v);
    g.o = in(attention_grad::o);
    g.lse = in<float>(attention_grad::lse);
    g.do_ = in(attention_grad::dy);
    g.dq = out(attention_grad::dq);
    g.dk = out(attention_grad::dk);
    g.dv = out(attention_grad::dv);
    g.scratch = scratch_;
    g.positions = in_or_null<std::int32_t>(attention_grad::positions);
    const kernels::AttentionShape shape = attention_shape(graph_, node_, device_.context_rank);
    const DType t = type(attention_grad::q);
    kernels::prepare_attention_grad(shape, t, node_.has(attention_grad::positions));
    return [&space = device_.space, shape, t, g] { kernels::attention_grad(space, shape, t, g); };
  }

  kernels::LossShape loss() const { return loss_shape(graph_, node_, device_.tensor_rank); }
  Kernel cross_entropy() const {
    return [&space = device_.space, shape = loss(), t = type(cross_entropy::logits),
            logits = in(cross_entropy::logits), targets = in<std::int32_t>(cross_entropy::targets),
            lse = out<float>(cross_entropy::lse), totals = out<double>(cross_entropy::totals),
            s = scratch_] { kernels::cross_entropy(space, shape, t, logits, targets, lse, totals, s); };
  }
  Kernel loss_of_parts() const {
    const std::int64_t rows = loss().rows, ranks = elements(cross_entropy::parts) / (3 * rows);
    return [&space = device_.space, rows, ranks, parts = in<float>(cross_entropy::parts),
            targets = in<std::int32_t>(cross_entropy::targets), lse = out<float>(cross_entropy::lse),
            totals = out<double>(cross_entropy::totals), s = scratch_] {
      kernels::cross_entropy_of_parts(space, rows, ranks, parts, targets, lse, totals, s);
    };
  }
  Kernel cross_entropy_grad() const {
    return [&space = device_.space, shape = loss(), t = type(cross_entropy_grad::logits),
            logits = in(cross_entropy_grad::logits), targets = in<std::int32_t>(cross_entropy_grad::targets),
            lse = in<float>(cross_entropy_grad::lse), dlogits = out(cross_entropy_grad::dlogits)] {
      kernels::cross_entropy_grad(space, shape, t, logits, targets, lse, dlogits);
    };
  }

  /// Zeroes a join's padding. The parts stand in the join already; the padding must be zero, because it is
  /// summed and squared with the rest.
  Kernel pad() const {
    const ir::Value& whole = graph_.value(node_.out(single::to));
    if (!whole.unit.valid()) return [] {};
    const auto size = static_cast<std::int64_t>(size_of(whole.type.dtype));
    const std::int64_t begin = graph_.unit(whole.unit).elements * size,
                       end = graph_.local_bytes(node_.out(single::to));
    return [&space = device_.space, p = out(single::to) + begin, n = static_cast<std::size_t>(end - begin)] {
      kernels::fill_zero(space, p, n);
    };
  }

  Kernel accumulate() const {
    const auto mode = node_.has(accumulate::so_far) ? WriteMode::add : WriteMode::replace;
    if (mode == WriteMode::replace && in(accumulate::gradient) == out(accumulate::sum))
      return [] {};  // the plan had the gradient made in its place
    return [&space = device_.space, n = elements(accumulate::sum), t = type(accumulate::gradient),
            g = in(accumulate::gradient), sum = out<float>(accumulate::sum),
            mode] { kernels::accumulate(space, n, t, g, sum, mode); };
  }

  /// Sums the totals of all rounds and ranks. Its input is [rounds, 2] of one rank, or [ranks, rounds, 2] of
  /// all; with one round it is [2] or [ranks, 2].
  Kernel reduce_totals() const {
    const ValueId of_rounds = node_.in(reduce_totals::rounds);
    const Shape shape = graph_.local_shape(of_rounds);
    const bool gathered = graph_.node(graph_.value(of_rounds).producer).op == Op::all_gather;
    const std::int64_t ranks = gathered ? shape[0] : 1;
    return [&space = device_.space, ranks, rounds = element_count(shape) / 2 / ranks,
            x = in<double>(reduce_totals::rounds),
            y = out<double>(reduce_totals::totals)] { kernels::reduce_totals(space, ranks, rounds, x, y); };
  }

  Kernel adamw() const {
    kernels::AdamW adam{};
    adam.beta1 = node_.attributes.real(Attr::beta1);
    adam.beta2 = node_.attributes.real(Attr::beta2);
    adam.eps = real(Attr::eps);
    adam.scale = in<float>(adamw::scale);
    adam.step = in<StepBlock>(adamw::step);
    const bool has_parameter = node_.has(adamw::new_parameter);
    return
        [&space = device_.space, n = elements(adamw::new_master), adam, g = in<float>(adamw::gradient),
         master = out<float>(adamw::new_master), m = out<float>(adamw::new_exp_avg),
         v = out<float>(adamw::new_exp_avg_sq), t = has_parameter ? type(adamw::new_parameter) : DType::f32,
         parameter = has_parameter ? static_cast<void*>(out(adamw::new_parameter)) : nullptr] {
          kernels::adamw(space, n, adam, g, master, m, v, t, parameter);
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

}  // namespace weft::exec
