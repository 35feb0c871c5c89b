#include "train/first_nonfinite.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>

namespace weft::train {
namespace {

constexpr double nowhere = -std::numeric_limits<double>::infinity();

/// Whether a storage of this role is read before it is written in a step. Moments are not looked at, because
/// a step's loss and gradient do not depend on them.
bool is_read_first(ir::Role role) {
  return role == ir::Role::master || role == ir::Role::parameter || role == ir::Role::constant;
}

std::string in_words(const kernels::NonfiniteCount& found, std::int64_t elements, int rank) {
  return fmt::format("{} NaN and {} Inf in {} elements of rank {}", found.nans, found.infinities, elements,
                     rank);
}

}  // namespace

kernels::NonfiniteCount FirstNonfinite::count(const std::byte* data, DType t, std::int64_t n) {
  return kernels::count_nonfinite(session_.space(), n, data, t);
}

/// Looks at a storage parameter by parameter; of a shard it sees the part that this rank holds.
void FirstNonfinite::look_at_state(const ir::Storage& storage, const std::byte* data,
                                   exec::ProgramPlace& place) {
  const ir::Graph& graph = plan_.graph;
  const std::int64_t held = graph.local_elements(storage);
  std::vector<Parameter> parts{{storage.name, {held}, 0}};
  std::int64_t begin = 0;
  if (storage.unit.valid()) {
    const Unit& unit = graph.unit(storage.unit);
    parts = unit.parameters;
    if (held < unit.padded_elements(session_.mesh().unit_ranks(unit.copies))) begin = session_.shard() * held;
  }
  for (const Parameter& part : parts) {
    ++place.index;
    const std::int64_t from = std::max(part.offset, begin);
    const std::int64_t n = std::min(part.offset + element_count(part.shape), begin + held) - from;
    if (n <= 0 || !would_be_first(place)) continue;
    const DType t = storage.type.dtype;
    const kernels::NonfiniteCount bad =
        count(data + (from - begin) * static_cast<std::int64_t>(size_of(t)), t, n);
    if (bad.any())
      found_ = Found{place, fmt::format("the step starts from {} ({}) with {}", part.path,
                                        name_of(storage.role), in_words(bad, n, session_.rank()))};
  }
}

void FirstNonfinite::start(const exec::Locate& locate) {
  found_.reset();
  exec::ProgramPlace place;
  std::vector<bool> seen(plan_.graph.storages().size());
  for (std::size_t i = 0; i < plan_.graph.nodes().size(); ++i) {
    const ir::Node& node = plan_.graph.nodes()[i];
    if (node.op != ir::Op::state) continue;
    const ir::StorageId home = plan_.graph.value(node.out(ir::operand::single::to)).home;
    if (!plan_.storage_used[home.index()] || seen[home.index()]) continue;
    seen[home.index()] = true;
    const ir::Storage& storage = plan_.graph.storage(home);
    if (!is_read_first(storage.role)) continue;
    place.stage = order_.stage(ir::NodeId(i));
    look_at_state(storage, locate(node.out(ir::operand::single::to)), place);
  }
}

bool FirstNonfinite::wants(ir::NodeId id) const {
  const ir::Node& node = plan_.graph.node(id);
  // The executor waits for what is wanted. A stage asks for a message long before it reads it, so stages that
  // waited for messages there could wait for each other.
  if (ir::is_message(node.op)) return false;
  return would_be_first(order_.place(id)) &&
         !(node.op == ir::Op::all_gather && node.attributes.has(ir::Attr::used));
}

void FirstNonfinite::made(ir::NodeId id, const exec::Locate& locate) {
  const ir::Node& node = plan_.graph.node(id);
  for (const ir::ValueId output : node.outputs) {
    const ir::Value& value = plan_.graph.value(output);
    const std::int64_t n = plan_.graph.local_elements(output);
    const kernels::NonfiniteCount bad = count(locate(output), value.type.dtype, n);
    if (!bad.any()) continue;
    found_ =
        Found{order_.place(id),
              fmt::format("the first value that is not finite is {}, made by {} in {} of {} (round {}), with "
                          "{}; the parameters before the step are finite",
                          value.name, name_of(node.op), name_of(node.phase), ir::module_of(node, value),
                          node.round, in_words(bad, n, session_.rank()))};
    return;
  }
}

std::string FirstNonfinite::finish() {
  bool is_first = found_.has_value();
  // Of the ranks that may be the first, those with the least number stay.
  const auto keep_least = [&](std::int64_t number) {
    std::array<double, 1> negated{is_first ? -static_cast<double>(number) : nowhere};
    const double own = negated[0];
    session_.world().all_reduce_max(negated);
    is_first = is_first && own == negated[0];
  };
  const exec::ProgramPlace place = found_ ? found_->place : exec::ProgramPlace{};
  keep_least(place.section);
  keep_least(place.stage);
  keep_least(place.index);
  for (std::string& text : session_.world().gather_strings(is_first ? found_->text : ""))
    if (!text.empty()) return std::move(text);
  return session_.rank() == 0 ? "all values of the step are finite when it runs again" : "";
}

}  // namespace weft::train
