#include "train/preflight.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "kernels/space.hpp"
#include "plan/report.hpp"
#include "train/memory_usage.hpp"

namespace weft::train {

data::Windows open_windows(const Deck& deck, const std::vector<std::string>& paths, const char* key) {
  try {
    std::vector<data::TokenFile> files;
    for (const std::string& path : paths) {
      files.push_back(data::TokenFile::open(path));
      data::check_vocabulary(files.back(), deck.model.vocab);
    }
    return {std::move(files), deck.data.seq};
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{}: {}", place_of(deck, key), e.what()));
  }
}

void check_memory(const Deck& deck, const plan::Plan& train, const plan::Plan* evaluate, comm::World& world) {
  if (!kernels::device_is_host()) return;
  const std::int64_t arena = std::max(train.arena_bytes, evaluate == nullptr ? 0 : evaluate->arena_bytes);
  const std::int64_t state = plan::persistent_bytes(train);
  const auto here = static_cast<double>(world.node_size() * (state + arena));
  const double available =
      static_cast<double>(available_memory().value_or(std::numeric_limits<std::int64_t>::max()));
  // Of the host that lacks most: the lack, what its ranks need, what it has. Nobody allocates before all have
  // looked.
  std::array<double, 1> lack{here - available};
  world.all_reduce_max(lack);
  if (lack[0] <= 0) return;
  std::array<double, 2> worst{-1, -1};
  if (here - available == lack[0]) worst = {here, available};
  world.all_reduce_max(worst);
  const auto gib = [](double bytes) { return bytes / (1 << 30); };
  throw Error(
      ExitCode::bad_input,
      world.rank() != 0
          ? ""
          : fmt::format(
                "{}: not enough memory: a rank needs {:.1f} GiB (state {:.1f}, arena {:.1f}), the ranks of "
                "a host {:.1f} GiB, and it has {:.1f} GiB; use more nodes, parallel.mode = \"fsdp\", or a "
                "smaller data.batch or data.seq",
                deck.source, gib(static_cast<double>(state + arena)), gib(static_cast<double>(state)),
                gib(static_cast<double>(arena)), gib(worst[0]), gib(worst[1])));
}

}  // namespace weft::train
