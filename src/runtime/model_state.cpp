#include "runtime/model_state.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "base/device.hpp"
#include "base/hash.hpp"
#include "base/rng.hpp"
#include "exec/launch_check.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/memory.hpp"
#include "kernels/value_hash.hpp"
#include "ops/storages.hpp"

namespace weft::runtime {
namespace {

ckpt::Role checkpoint_role(ir::Role role) {
  return role == ir::Role::exp_avg      ? ckpt::Role::exp_avg
         : role == ir::Role::exp_avg_sq ? ckpt::Role::exp_avg_sq
                                        : ckpt::Role::master;
}

bool is_cut(const ir::Storage& s) {
  return std::any_of(s.placement.begin(), s.placement.end(),
                     [](const ir::Placement& p) { return p.kind == ir::Placement::Kind::shard; });
}

bool ends_with(const std::string& path, const char* name) {
  return path.ends_with(std::string(".") + name);
}

/// The elements that a parameter and the stretch [begin, begin + count) of its unit have in common.
std::pair<std::int64_t, std::int64_t> overlap(const Parameter& p, std::int64_t begin, std::int64_t count) {
  return {std::max(begin, p.offset), std::min(begin + count, p.offset + element_count(p.shape))};
}

/// How many elements of the initial state are on the host at a time.
constexpr std::int64_t drawn_at_once = 1 << 18;

/// Draws elements [begin, end) of one whole parameter. A draw belongs to a place in [out, in], however it is
/// stored.
void draw(const Parameter& p, std::int64_t begin, std::int64_t end, const RandomStream& stream, double std,
          float* out) {
  if (ends_with(p.path, "norm")) {
    std::fill(out, out + (end - begin), 1.0F);
    return;
  }
#pragma omp parallel for schedule(static)
  for (std::int64_t i = begin; i < end; ++i)
    out[i - begin] = static_cast<float>(std * stream.normal(static_cast<std::uint64_t>(out_in_index(p, i))));
}

}  // namespace

ModelState::ModelState(Session& session, const plan::Plan& plan, const std::vector<Unit>& model)
    : session_(session),
      plan_(plan),
      units_(plan.graph.units()),
      stored_units_(ckpt::stored_units(model.empty() ? units_ : model)) {
  for (std::size_t i = 0; i < plan.graph.storages().size(); ++i) {
    const ir::Storage& s = plan.graph.storages()[i];
    if (!s.unit.valid() || s.role == ir::Role::gradient || !session.memory().has(s.name)) continue;
    if (s.role == ir::Role::parameter &&
        session.memory().has(ops::storage_name(ir::Role::master, plan.graph.unit(s.unit))))
      continue;  // publish() makes this copy
    Vector v{};
    v.role = checkpoint_role(s.role);
    v.dtype = s.type.dtype;
    v.unit = s.unit.index();
    v.device = session.memory().storage(s.name);
    const Unit& unit = units_[v.unit];
    const auto [begin, end] = is_cut(s) ? shard_range(unit) : std::pair(std::int64_t{0}, unit.elements);
    v.begin = begin;
    v.count = end - begin;
    vectors_.push_back(v);
  }
}

void ModelState::initialize(std::uint64_t seed, double std, std::int64_t layers) {
  std::vector<float> host;
  for (const Vector& v : vectors_) {
    if (v.role != ckpt::Role::master) {
      kernels::fill_zero(session_.space(), v.device, static_cast<std::size_t>(v.count) * size_of(v.dtype));
      continue;
    }
    for (std::int64_t at = v.begin; at < v.begin + v.count; at += drawn_at_once) {
      const std::int64_t n = std::min(drawn_at_once, v.begin + v.count - at);
      host.assign(static_cast<std::size_t>(n), 0.0F);
      for (const Parameter& p : units_[v.unit].parameters) {
        const auto [begin, end] = overlap(p, at, n);
        if (begin >= end) continue;
        const bool into_residual = ends_with(p.path, "wo") || ends_with(p.path, "w2");
        const double scale = into_residual ? std / std::sqrt(2 * static_cast<double>(layers)) : std;
        const std::int64_t first = first_of(p) - p.offset;
        draw(whole(p), begin + first, end + first, RandomStream(seed, p.path), scale,
             host.data() + (begin - at));
      }
      kernels::copy_to_device(session_.space(), v.device + (at - v.begin) * 4, host.data(),
                              host.size() * sizeof(float));
    }
  }
  publish();
}

void ModelState::set_parameter(const std::string& path, std::span<const float> values) {
  for (const Vector& v : vectors_) {
    if (v.role != ckpt::Role::master) continue;
    for (const Parameter& p : units_[v.unit].parameters) {
      if (p.path != path) continue;
      const auto [begin, end] = overlap(p, v.begin, v.count);
      if (begin >= end) continue;
      std::vector<float> stored;
      stored.reserve(static_cast<std::size_t>(end - begin));
      const std::int64_t first = first_of(p) - p.offset;
      for (std::int64_t i = begin + first; i < end + first; ++i)
        stored.push_back(values[static_cast<std::size_t>(out_in_index(whole(p), i))]);
      kernels::copy_to_device(session_.space(), v.device + (begin - v.begin) * 4, stored.data(),
                              stored.size() * sizeof(float));
    }
  }
}

std::vector<float> ModelState::parameter(const std::string& path) const {
  for (const Vector& v : vectors_)
    for (const Parameter& p : units_[v.unit].parameters)
      if (v.role == ckpt::Role::master && p.path == path) {
        std::vector<float> stored(static_cast<std::size_t>(element_count(p.shape)));
        WEFT_EXPECT(v.begin <= p.offset && p.offset + element_count(p.shape) <= v.begin + v.count);
        kernels::copy_to_host(session_.space(), stored.data(), v.device + (p.offset - v.begin) * 4,
                              stored.size() * sizeof(float));
        return ckpt::as_out_in(p, stored);
      }
  return {};
}

void ModelState::publish() {
  kernels::take_launch_errors();  // forgets the errors of earlier launches
  const ir::Graph& graph = plan_.graph;
  for (const ir::Storage& parameter : graph.storages()) {
    if (parameter.role != ir::Role::parameter || !session_.memory().has(parameter.name)) continue;
    const Unit& unit = graph.unit(parameter.unit);
    const std::string master_name = ops::storage_name(ir::Role::master, unit);
    if (!session_.memory().has(master_name)) continue;  // restore() has set it
    const ir::Storage& master = graph.storage(graph.find_storage(master_name));
    const std::int64_t n = graph.local_elements(master);
    std::byte* to = session_.memory().storage(parameter.name);
    const std::byte* from = session_.memory().storage(master.name);
    // With zero1 and zero2 this is this rank's part of a whole copy.
    const bool slice = is_cut(master) && !is_cut(parameter);
    std::byte* mine =
        to + (slice ? session_.shard() * n * static_cast<std::int64_t>(size_of(parameter.type.dtype)) : 0);
    kernels::cast(session_.space(), n, DType::f32, from, parameter.type.dtype, mine);
    kernels::fence(session_.space());
    exec::check_launches(kernels::take_launch_errors, "parameters from masters", nullptr);
    if (slice && session_.shards() > 1)
      comm::sync(session_.channel(Lane::gather)->all_gather({}, mine, to, n, parameter.type.dtype));
  }
}

std::int64_t ModelState::first_of(const Parameter& p) const {
  return first_element(p, session_.tensor_rank(), session_.mesh().size(tensor_axis));
}

std::pair<std::int64_t, std::int64_t> ModelState::own_range(const Unit& unit) const {
  const std::int64_t part = unit.shard_elements(session_.mesh().unit_ranks(unit.copies));
  const std::int64_t begin = std::min(unit.elements, part * session_.own_part(unit));
  return {begin, std::min(unit.elements, begin + part)};
}

std::pair<std::int64_t, std::int64_t> ModelState::shard_range(const Unit& unit) const {
  const std::int64_t shard =
      unit.padded_elements(session_.mesh().unit_ranks(unit.copies)) / session_.shards();
  const std::int64_t begin = std::min(unit.elements, shard * session_.shard());
  return {begin, std::min(unit.elements, begin + shard)};
}

void ModelState::add_slices(const Vector& v, std::int64_t begin, std::int64_t end,
                            std::vector<ckpt::StateSlice>& slices) const {
  for (const Parameter& p : units_[v.unit].parameters) {
    const auto [from, to] = overlap(p, begin, end - begin);
    if (from >= to) continue;
    ckpt::StateSlice slice;
    slice.unit = p.path;
    slice.role = v.role;
    slice.unit_elements = element_count(whole(p).shape);
    slice.begin = first_of(p) + from - p.offset;
    slice.count = to - from;
    slice.data = v.device + (from - v.begin) * static_cast<std::int64_t>(size_of(v.dtype));
    slices.push_back(slice);
  }
}

void ModelState::copy_to_device(const Vector& v, std::int64_t at, std::int64_t count, const std::byte* host) {
  const auto n = static_cast<std::size_t>(count);
  std::byte* to = v.device + at * static_cast<std::int64_t>(size_of(v.dtype));
  if (v.dtype == DType::f32) {
    kernels::copy_to_device(session_.space(), to, host, n * sizeof(float));
    return;
  }
  const auto* from = reinterpret_cast<const float*>(host);
  std::vector<bf16> rounded(n);
  for (std::size_t i = 0; i < n; ++i) rounded[i] = to_bf16(from[i]);
  kernels::copy_to_device(session_.space(), to, rounded.data(), n * sizeof(bf16));
}

std::vector<ckpt::StateSlice> ModelState::own_slices() const {
  std::vector<ckpt::StateSlice> slices;
  for (const Vector& v : vectors_) {
    if (units_[v.unit].copy) continue;
    WEFT_EXPECT(v.dtype == DType::f32);
    const auto [begin, end] = own_range(units_[v.unit]);
    add_slices(v, begin, end, slices);
  }
  return slices;
}

ModelState::Snapshot ModelState::snapshot() {
  Snapshot snapshot{{}, own_slices()};
  if (device_is_host()) return snapshot;
  for (ckpt::StateSlice& slice : snapshot.slices) {
    std::vector<std::byte> host(static_cast<std::size_t>(slice.count) * sizeof(float));
    kernels::copy_to_host(session_.space(), host.data(), slice.data, host.size());
    slice.data = host.data();
    snapshot.bytes.push_back(std::move(host));
  }
  return snapshot;
}

std::int64_t ModelState::own_bytes() const {
  std::int64_t bytes = 0;
  for (const ckpt::StateSlice& slice : own_slices())
    bytes += slice.count * static_cast<std::int64_t>(sizeof(float));
  return bytes;
}

void ModelState::restore(const Fill& fill) {
  std::vector<ckpt::StateSlice> slices;
  for (const Vector& v : vectors_) {
    const std::size_t first = slices.size();
    add_slices(v, v.begin, v.begin + v.count, slices);
    const bool in_place = device_is_host() && v.dtype == DType::f32;
    for (std::size_t i = first; !in_place && i < slices.size(); ++i) slices[i].data = nullptr;
  }
  fill(slices,
       [this](const ckpt::StateSlice& slice, std::int64_t at, std::int64_t count, const std::byte* data) {
         for (const Vector& v : vectors_)
           for (const Parameter& p : units_[v.unit].parameters)
             if (v.role == slice.role && p.path == slice.unit)
               copy_to_device(v, p.offset + slice.begin - first_of(p) + at - v.begin, count, data);
       });
}

std::uint64_t ModelState::hash() {
  std::uint64_t sum = 0;
  for (const ckpt::StateSlice& s : own_slices())
    sum += kernels::value_hash(session_.space(), s.count, s.data, s.dtype, s.begin,
                               hash_text(s.unit, static_cast<std::uint64_t>(s.role)));
  session_.world().all_reduce_sum(std::span(&sum, 1));
  return sum;
}

}  // namespace weft::runtime
