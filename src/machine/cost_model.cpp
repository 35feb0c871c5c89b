#include "machine/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "machine/signature.hpp"

namespace weft::machine {
namespace {

using ir::Op;

/// How many hosts `ranks` ranks fill.
int nodes_for(int ranks, int ranks_per_node) {
  return ranks / ranks_per_node + (ranks % ranks_per_node == 0 ? 0 : 1);
}

/// How many of the ranks each host has. They are evenly spaced in the world, as the groups of a mesh's axis
/// are.
double ranks_of_a_host(RankGroup peers, int ranks_per_node) {
  const double stride = static_cast<double>(peers.span - 1) / (peers.ranks - 1);
  return std::max(1.0, ranks_per_node / stride);
}

/// How far apart two positive numbers are, measured by their ratio.
double log_distance(double a, double b) {
  return std::abs(std::log(std::max(a, 1.0) / std::max(b, 1.0)));
}

}  // namespace

CostModel::CostModel(Profile profile) : profile_(std::move(profile)) {
  for (std::size_t i = 0; i < profile_.kernels.size(); ++i) {
    const KernelSample& kernel = profile_.kernels[i];
    seconds_.emplace(kernel.signature, kernel.seconds);
    families_[family(kernel.signature)].push_back(i);
  }
  for (const CollectiveCurve& c : profile_.collectives)
    curves_.push_back({{c.op, c.wire, c.ranks, c.nodes, {}}, Curve(c.points)});
}

bool CostModel::is_measured(const ir::Graph& graph, const ir::Node& node) const {
  return seconds_.contains(signature(graph, node));
}

double CostModel::kernel_seconds(const ir::Graph& graph, const ir::Node& node) const {
  if (ir::is_alias(node.op)) return 0;
  if (ir::communicates(node.op)) throw std::logic_error("what communicates has no kernel_seconds");
  // Only measured kernels are looked up, because to make a signature takes longer than all else here.
  if (!seconds_.empty()) {
    const auto it = seconds_.find(signature(graph, node));
    if (it != seconds_.end()) return it->second;
  }
  const ops::Cost cost = ops::cost(graph, node);
  const std::string alike = family(graph, node);
  const double rate = flops_per_s(graph, node, alike);
  if (const KernelSample* const sample = nearest_sample(alike, cost))
    if (const double by_rates = roofline(rate, {sample->flops, sample->bytes}); by_rates > 0)
      return roofline(rate, cost) * sample->seconds / by_rates;
  return roofline(rate, cost) + preparing_bytes(graph, node) / profile_.compute.bytes_per_s;
}

/// Bytes that are read and written before a product in Float8. Where no library makes it, both operands are
/// decoded into bf16; elsewhere a weight whose rows are summed over is transposed
/// (kernels/float8_matmul.hpp).
double CostModel::preparing_bytes(const ir::Graph& graph, const ir::Node& node) const {
  if (!ir::is_float8_product(node.op)) return 0;
  const auto elements = [&](ir::In operand) {
    return static_cast<double>(graph.local_elements(node.in(operand)));
  };
  using namespace ir::operand;
  const Float8Scales scales =
      node.attributes.has(ir::Attr::tensorwise) ? Float8Scales::tensorwise : Float8Scales::rowwise;
  if (profile_.compute.matmul_f8_of(scales) == 0)
    return 2.0 * static_cast<double>(size_of(DType::bf16)) *
           (elements(matmul_f8::x8) + elements(matmul_f8::w8));
  return node.op == Op::matmul_dgrad_f8 ? 2 * elements(matmul_dgrad_f8::w8) : 0;
}

/// The rate of a kernel's FLOPs. `family` starts with the operation, and shows the type of its products, too.
double CostModel::flops_per_s(const ir::Graph& graph, const ir::Node& node, std::string_view family) const {
  const Compute& c = profile_.compute;
  const auto is_operand = [family](std::string_view type) { return family.find(type) < family.find("->"); };
  if (node.op == Op::attention || node.op == Op::attention_grad) {
    // GPUs have tensor cores for attention in bf16 of whole sequences and of sections of whole 64 tokens,
    // without borders of documents in them (kernels/attention_cudnn.cpp). Elsewhere fp32's rate is the most
    // that it can reach.
    const bool forward = node.op == Op::attention;
    const bool documents = forward ? node.has(ir::operand::attention::positions)
                                   : node.has(ir::operand::attention_grad::positions);
    const ir::ValueId q = node.in(forward ? ir::operand::attention::q : ir::operand::attention_grad::q);
    const bool whole_sections = !node.attributes.has(ir::Attr::axis) || graph.local_shape(q)[1] % 64 == 0;
    const bool by_tensor_cores = is_operand("bf16") && !documents && whole_sections;
    return c.on_gpu() && !by_tensor_cores ? std::min(c.attention, c.matmul_f32) : c.attention;
  }
  if (is_operand("e4m3")) {
    const bool tensorwise = family.find(" tensorwise ") != std::string_view::npos;
    const double f8 = c.matmul_f8_of(tensorwise ? Float8Scales::tensorwise : Float8Scales::rowwise);
    return f8 > 0 ? f8 : c.matmul_bf16;
  }
  return is_operand("bf16") ? c.matmul_bf16 : c.matmul_f32;
}

/// The estimate by rates.
double CostModel::roofline(double flops_per_s, const ops::Cost& cost) const {
  const Compute& c = profile_.compute;
  return std::max(cost.flops / flops_per_s, cost.bytes / c.bytes_per_s) + c.launch_s;
}

const KernelSample* CostModel::nearest_sample(const std::string& family, const ops::Cost& cost) const {
  const auto known = families_.find(family);
  if (known == families_.end()) return nullptr;
  const KernelSample* best = nullptr;
  double least = 0;
  for (const std::size_t i : known->second) {
    const KernelSample& k = profile_.kernels[i];
    const double distance = log_distance(cost.flops, k.flops) + log_distance(cost.bytes, k.bytes);
    if (best != nullptr && distance >= least) continue;
    best = &k;
    least = distance;
  }
  return best;
}

const CostModel::Measured* CostModel::nearest(Op op, RankGroup peers, DType wire) const {
  const bool far = nodes_for(peers.span, profile_.ranks_per_node) > 1;
  // A smaller distance is nearer. An operation without a curve borrows another's, because it sends as many
  // bytes.
  const auto distance = [&](const CollectiveCurve& c) {
    return std::tuple(c.op != op, (c.nodes > 1) != far, c.wire != wire, log_distance(c.ranks, peers.ranks));
  };
  const auto it = std::min_element(curves_.begin(), curves_.end(), [&](const Measured& a, const Measured& b) {
    return distance(a.from) < distance(b.from);
  });
  return it == curves_.end() ? nullptr : &*it;
}

Link CostModel::link_of(RankGroup peers) const {
  const bool gpu = profile_.compute.on_gpu();
  return gpu && nodes_for(peers.span, profile_.ranks_per_node) > 1 ? Link::far : Link::near;
}

Link CostModel::link_of(const ir::Graph& graph, const ir::Node& node) const {
  return link_of({ops::ranks_of(graph, node), ops::span_of(graph, node)});
}

double CostModel::shared_link_speed(int collectives) const {
  return collectives < 2 ? 1 : std::min(1.0, 2 * profile_.sharing.both_lanes / collectives);
}

std::optional<double> CostModel::replica_speed() const {
  const Sharing& s = profile_.sharing;
  return s.replica ? std::optional(s.replica->beside_lanes) : std::nullopt;
}

double CostModel::beside_compute_speed(Lane lane) const {
  const Sharing& s = profile_.sharing;
  return s.replica && lane == Lane::replica ? s.replica->beside_compute : s.beside_compute;
}

double CostModel::stolen_compute_seconds(Lane lane, double bytes) const {
  const Sharing& s = profile_.sharing;
  return bytes * (s.replica && lane == Lane::replica ? s.replica->stolen_s_per_byte : s.stolen_s_per_byte);
}

double CostModel::collective_seconds(Op op, RankGroup peers, double bytes_sent, DType wire) const {
  if (peers.ranks < 2 || bytes_sent <= 0) return 0;
  const Measured* const m = nearest(op, peers, wire);
  if (m == nullptr) return profile_.compute.launch_s * (peers.ranks - 1) + bytes_sent / link_bytes_per_s();
  if (m->from.nodes > 1 && op != Op::reduce_scatter) {
    const int most = profile_.ranks_per_node;
    const double of_curve = std::min<double>(most, static_cast<double>(m->from.ranks) / m->from.nodes);
    bytes_sent *= std::max(1.0, of_curve / ranks_of_a_host(peers, most));
  }
  const double messages = static_cast<double>(peers.ranks - 1) / static_cast<double>(m->from.ranks - 1);
  return m->curve.seconds(bytes_sent) + m->curve.latency() * (messages - 1);
}

double CostModel::collective_seconds(const ir::Graph& graph, const ir::Node& node) const {
  if (ir::is_message(node.op))
    return collective_seconds(node.op, {2, ops::span_of(graph, node)},
                              static_cast<double>(ops::payload_bytes(graph, node)), wire_of(graph, node));
  return collective_seconds(node.op, {ops::ranks_of(graph, node), ops::span_of(graph, node)},
                            bytes_sent(graph, node), wire_of(graph, node));
}

double CostModel::bytes_sent(const ir::Graph& graph, const ir::Node& node) const {
  const auto local = static_cast<double>(ops::local_bytes(graph, node));
  return static_cast<double>(ops::wire_bytes(graph, node)) +
         local * std::min(1.0, link_bytes_per_s() / profile_.compute.bytes_per_s);
}

DType wire_of(const ir::Graph& graph, const ir::Node& node) {
  const ir::ValueId value = ir::is_message(node.op) ? ir::moved_value(node) : ir::member_input(node, 0);
  return graph.value(value).type.dtype;
}

}  // namespace weft::machine
