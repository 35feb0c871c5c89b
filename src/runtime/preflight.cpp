#include "runtime/preflight.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/device.hpp"
#include "base/text.hpp"
#include "data/file_names.hpp"
#include "runtime/memory_usage.hpp"

namespace weft::runtime {

data::Sequences open_sequences(const Deck& deck, const std::vector<std::string>& paths, const char* key) {
  try {
    std::vector<data::TokenFile> files;
    for (const std::string& path : data::matching_paths(paths)) {
      files.push_back(data::TokenFile::open(path));
      data::check_vocabulary(files.back(), deck.model.vocab);
    }
    return {std::move(files), deck.data.seq,
            deck.data.document_mask ? data::Positions::of_document : data::Positions::of_sequence};
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{}: {}", place_of(deck, key), e.what()));
  }
}

std::string over_limit_text(const Deck& deck, const std::string& needs, const std::string& what_to_do) {
  return fmt::format("{}: the run {}, the limit is {}; {}", place_of(deck, "run.memory_limit"), needs,
                     bytes_text(static_cast<std::int64_t>(deck.run.memory_limit)), what_to_do);
}

namespace {

/// A change to a deck, or to the number of ranks, that takes memory off a rank.
struct Change {
  const char* key;  ///< a change takes the place of an earlier one of the same key
  std::string text;
  std::function<void(Deck&, int& ranks)> apply;
};

/// Twice as many ranks on the data axis as the deck has on `ranks`. The other axes stay.
void double_the_data_axis(Deck& deck, int& ranks) {
  deck.parallel.mesh = resolve_mesh(deck, ranks).axes();
  for (MeshAxis& axis : deck.parallel.mesh)
    if (axis.name == data_axis) axis.size *= 2;
  ranks *= 2;
}

/// The changes that there are for a deck, the cheapest first.
std::vector<Change> changes_of(const Deck& deck, int ranks) {
  std::vector<Change> changes;
  const auto add_batch = [&changes](const std::string& text, std::int64_t batch) {
    changes.push_back({"data.batch", text, [batch](Deck& changed, int&) { changed.data.batch = batch; }});
  };
  if (deck.parallel.mode != ShardMode::fsdp && ranks > 1)
    changes.push_back({"parallel.mode", "parallel.mode = \"fsdp\"",
                       [](Deck& changed, int&) { changed.parallel.mode = ShardMode::fsdp; }});
  if (deck.schedule.recompute != Recompute::full)
    changes.push_back({"schedule.recompute", "schedule.recompute = \"full\"",
                       [](Deck& changed, int&) { changed.schedule.recompute = Recompute::full; }});
  if (deck.data.batch > 2 && deck.data.batch % 2 == 0) add_batch("half of data.batch", deck.data.batch / 2);
  if (deck.data.batch > 1) add_batch("data.batch = 1", 1);
  changes.push_back({"parallel.mesh", "twice as many ranks on the data axis", double_the_data_axis});
  return changes;
}

/// What the fullest rank would need with the deck, because each place on the pipe has other stages; or what
/// the first place would need that needs more than `limit`, because the others do not matter then. Nothing
/// where that is not known by `end`.
std::optional<std::int64_t> needed_with(const Deck& deck, int ranks, double limit, const Replan& replan,
                                        double end) {
  std::int64_t most = 0;
  const int places = resolve_mesh(deck, ranks).size(pipe_axis);
  for (int place = 0; place < places && static_cast<double>(most) <= limit; ++place) {
    if (seconds_now() > end) return std::nullopt;
    most = std::max(most, replan(deck, ranks, place).needed());
  }
  return most;
}

/// How long advice may take. The other ranks wait for it in a collective, which has its own timeout.
double seconds_for_advice(const Deck& deck) {
  constexpr double most = 60;
  return deck.run.collective_timeout > 0 ? std::min(most, deck.run.collective_timeout / 4) : most;
}

/// Applies the changes one after the other, and advises the first ones with which the run fits.
std::string advice(const Deck& deck, const Replan& replan, int ranks) {
  const double end = seconds_now() + seconds_for_advice(deck);
  Deck less = deck;
  std::vector<Change> made;
  for (Change& change : changes_of(deck, ranks)) {
    Deck changed = less;
    int changed_ranks = ranks;
    std::optional<std::int64_t> needed;
    try {
      change.apply(changed, changed_ranks);
      needed = needed_with(changed, changed_ranks, deck.run.memory_limit, replan, end);
    } catch (const Error&) {
      continue;  // its sizes do not divide, or it has no plan
    }
    if (!needed)
      return "schedule.recompute = \"full\", a smaller data.batch or more ranks may fit (planning them takes "
             "too long here)";
    if (!made.empty() && std::string_view(made.back().key) == change.key) made.pop_back();
    made.push_back(std::move(change));
    less = std::move(changed);
    if (static_cast<double>(*needed) > deck.run.memory_limit) continue;
    std::string text;
    for (const Change& one : made) text += (text.empty() ? "" : " and ") + one.text;
    return fmt::format("{} would take {}", text, bytes_text(*needed));
  }
  return "use more ranks, or a smaller model";
}

/// Collective: what the fullest rank needs, in words.
std::string fullest(const PlannedMemory& memory, comm::World& world) {
  const auto mine = static_cast<double>(memory.needed());
  std::array<double, 1> most{mine};
  world.all_reduce_max(most);
  // The first of those that need as much.
  std::array<double, 1> first{-static_cast<double>(mine == most[0] ? world.rank() : world.size())};
  world.all_reduce_max(first);
  return world.broadcast(to_text(memory), static_cast<int>(-first[0]));
}

void check_limit(const Deck& deck, const PlannedMemory& memory, const WhatToDo& what_to_do,
                 comm::World& world) {
  std::array<double, 1> most{static_cast<double>(memory.needed())};
  world.all_reduce_max(most);
  if (deck.run.memory_limit <= 0 || most[0] <= deck.run.memory_limit) return;
  const std::string needs = fullest(memory, world);
  std::string text;
  if (world.rank() == 0) text = over_limit_text(deck, needs, what_to_do.over_limit());
  world.barrier();  // advice takes some planning, and the rank that throws first ends all others
  throw Error(ExitCode::bad_input, text);
}

}  // namespace

void check_memory(const Deck& deck, const PlannedMemory& memory, const WhatToDo& what_to_do,
                  comm::World& world) {
  check_limit(deck, memory, what_to_do, world);
  // The ranks hold some of that memory already. Pages of the host's files do not count, because they can be
  // read again.
  double more = 0;
  std::optional<std::int64_t> has;
  if (device_is_host()) {
    more = static_cast<double>(sum_on_host(memory.needed() - memory_usage().own_bytes, world));
    has = available_memory();
  } else {
    const GpuShare gpu = gpu_share(world.device_sharers());
    more = static_cast<double>(memory.needed() - gpu.held);
    has = gpu.available;
  }
  const auto available = static_cast<double>(has.value_or(std::numeric_limits<std::int64_t>::max()));
  // The numbers of the host, or of the GPU's rank, that lacks most: what it lacks, what it needs, and what it
  // has. Nobody allocates before all ranks have looked.
  std::array<double, 1> lack{more - available};
  world.all_reduce_max(lack);
  if (lack[0] <= 0) return;
  std::array<double, 2> worst{-1, -1};
  if (more - available == lack[0]) worst = {more, available};
  world.all_reduce_max(worst);
  const std::string needs = fullest(memory, world);
  throw Error(
      ExitCode::bad_input,
      world.rank() != 0
          ? ""
          : fmt::format("{}: not enough memory: the run {}, {} {:.2f} GiB more than {} already, and it "
                        "has {:.2f} GiB; {}",
                        deck.source, needs, device_is_host() ? "the ranks of a host" : "a GPU's rank",
                        worst[0] / (1 << 30), device_is_host() ? "they hold" : "it holds",
                        worst[1] / (1 << 30), what_to_do.too_little));
}

void check_memory(const Deck& deck, const PlannedMemory& memory, const Replan& replan, comm::World& world) {
  const bool alone = static_cast<double>(memory.baseline) > deck.run.memory_limit;
  check_memory(deck, memory,
               {.over_limit = [&] { return alone ? above_by_baseline : advice(deck, replan, world.size()); },
                .too_little = fmt::format("use more {}, parallel.mode = \"fsdp\", schedule.recompute = "
                                          "\"full\", or a smaller data.batch or data.seq",
                                          device_is_host() ? "nodes" : "GPUs")},
               world);
}

}  // namespace weft::runtime
