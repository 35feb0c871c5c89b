#include "runtime/planned_memory.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "base/device.hpp"
#include "base/lane.hpp"
#include "ckpt/load.hpp"
#include "ckpt/state.hpp"
#include "compile/programs.hpp"
#include "exec/compute_lane.hpp"
#include "exec/trace.hpp"
#include "kernels/matmul.hpp"
#include "plan/report.hpp"
#include "runtime/token_rows.hpp"

namespace weft::runtime {
namespace {

constexpr std::int64_t mib = 1 << 20;
/// State and arena each end with a huge page that may be partly empty.
constexpr std::int64_t rounding = 2 * mib;
/// What every run takes for executor, microbatch buffers, metrics and log, and at the kernels' first calls.
constexpr std::int64_t in_every_run = 4 * mib;
/// What MPI takes for messages with a rank of the same host, in shared memory: Open MPI 4 takes 7 MiB on two
/// ranks that talk, and 13 on four.
constexpr std::int64_t a_talking_rank = 4 * mib;

/// The memory that saving takes beside a copy of the state, and in part keeps. That is HDF5's code, which
/// nothing else touches, and the saving thread's heap. It is also a piece of the largest slice for the
/// transfer, and another to read it back. Every run has it, because one that is stopped saves before it ends.
/// `units` are those of a rank's plan, or the model's, which are no smaller.
std::int64_t saving_bytes(std::span<const Unit> units, const Mesh& mesh) {
  if (!device_is_host()) return 0;
  constexpr std::int64_t code_and_heap = 6 * mib, piece = 8 * mib;
  std::int64_t largest = 0;
  for (const Unit& unit : units)
    largest = std::max(largest, unit.shard_elements(mesh.unit_ranks(unit.copies)));
  return code_and_heap + 2 * std::min(piece, largest * static_cast<std::int64_t>(sizeof(float)));
}

/// The device memory of the CUDA graphs that the runs of the plans become. It is an estimate: about 10 KB for
/// each kernel (NVIDIA/cccl#3768), and most instructions are one kernel.
std::int64_t graph_bytes(const Deck& deck, const plan::Plan& train, const plan::Plan* evaluate) {
  if (!exec::ComputeLane::capturable() || deck.schedule.cuda_graph == CudaGraph::off) return 0;
  constexpr std::int64_t a_kernel = 10'000;
  const std::size_t kernels =
      train.instructions.size() + (evaluate == nullptr ? 0 : evaluate->instructions.size());
  return a_kernel * static_cast<std::int64_t>(kernels);
}

/// What every run of the plans takes; `evaluate` may be null.
PlannedMemory memory_of(const Deck& deck, const plan::Plan& plan, const plan::Plan* evaluate,
                        std::int64_t resident, int ranks) {
  PlannedMemory m;
  m.state = plan::persistent_bytes(plan);
  const auto larger = [&](std::int64_t plan::Plan::*bytes) {
    return std::max(plan.*bytes, evaluate == nullptr ? 0 : evaluate->*bytes);
  };
  m.arena = larger(&plan::Plan::arena_bytes) + plan::share_of(larger(&plan::Plan::common_bytes), plan.team);
  m.baseline = least_baseline(deck, resident, talking_ranks(plan.graph.mesh(), ranks)) +
               TokenRows::planned_bytes(plan) + graph_bytes(deck, plan, evaluate);
  return m;
}

/// What loading takes of a run that loads a checkpoint.
std::int64_t bytes_of_loading(const Deck& deck, int world) {
  return device_is_host() ? ckpt::loading_bytes(model::units(compile::spec_of(deck)), world) : 0;
}

}  // namespace

int talking_ranks(const Mesh& mesh, int ranks_per_host) {
  const auto beside = [](int group, int team) { return team > 1 ? 0 : group - 1; };
  const Teams& teams = mesh.teams();
  // The ranks of a group of the context axis are in one group of the data axis, too.
  const int peers =
      std::max(beside(mesh.size(data_axis), teams.data), beside(mesh.size(context_axis), teams.context)) +
      beside(mesh.size(tensor_axis), teams.tensor) + mesh.size(replica_axis) - 1 +
      std::min(2, mesh.size(pipe_axis) - 1);
  return std::min(ranks_per_host, 1 + peers);
}

std::int64_t least_baseline(const Deck& deck, std::int64_t resident, int talking) {
  if (!device_is_host()) return resident;
  const auto products = static_cast<std::int64_t>(
      kernels::product_buffer_bytes(deck.precision.params, deck.precision.f32_products));
  return resident + products + 2 * rounding + in_every_run + (talking > 1 ? talking * a_talking_rank : 0);
}

PlannedMemory planned_memory(const Deck& deck, const plan::Plan& train, const plan::Plan* evaluate,
                             std::int64_t resident, int ranks) {
  PlannedMemory m = memory_of(deck, train, evaluate, resident, ranks);
  m.baseline += saving_bytes(train.graph.units(), train.graph.mesh());
  if (deck.log.trace_step > 0 && device_is_host())
    for (const std::size_t spans : exec::spans_of(train))
      m.baseline += static_cast<std::int64_t>(spans * sizeof(exec::Span));
  m.loading = loading_bytes(deck, train.graph.mesh().world());
  return m;
}

PlannedMemory planned_evaluation(const Deck& deck, const plan::Plan& plan, std::int64_t resident, int ranks) {
  PlannedMemory m = memory_of(deck, plan, nullptr, resident, ranks);
  m.loading = bytes_of_loading(deck, plan.graph.mesh().world());
  return m;
}

std::int64_t most_saving_bytes(const Deck& deck, const Mesh& mesh) {
  return saving_bytes(model::units(compile::spec_of(deck)), mesh);
}

std::int64_t loading_bytes(const Deck& deck, int world) {
  if (deck.checkpoint.resume == "never" && deck.model.init.empty()) return 0;
  return bytes_of_loading(deck, world);
}

std::int64_t state_copy_bytes(const Deck& deck, const plan::Plan& train) {
  if (!deck.checkpoint.background || deck.checkpoint.every == 0) return 0;
  constexpr auto bytes_an_element = static_cast<std::int64_t>(std::size(ckpt::all_roles) * sizeof(float));
  std::int64_t elements = 0;
  for (const Unit& unit : train.graph.units())
    elements += unit.shard_elements(train.graph.mesh().unit_ranks(unit.copies));
  return elements * bytes_an_element;
}

std::string to_text(const PlannedMemory& m) {
  const bool small = m.needed() < std::int64_t{1} << 30;
  const auto size = [small](std::int64_t bytes) {
    return small ? fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20))
                 : fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 30));
  };
  std::string more;
  if (m.copy > 0) more = fmt::format(", copy of the state {}", size(m.copy));
  if (m.loading > m.copy) more = fmt::format(", loading a checkpoint {}", size(m.loading));
  return fmt::format("needs {} {} on a rank (state {}, arena {}, baseline {}{})", size(m.needed()),
                     small ? "MiB" : "GiB", size(m.state), size(m.arena), size(m.baseline), more);
}

}  // namespace weft::runtime
