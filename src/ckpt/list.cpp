#include "ckpt/list.hpp"

#include <fmt/core.h>

#include <cstdint>

#include "base/text.hpp"
#include "ckpt/directory.hpp"

namespace weft::ckpt {

bool has_any(const std::string& checkpoints_dir) {
  return !detail::checkpoint_names(checkpoints_dir).empty() || !detail::unfinished(checkpoints_dir).empty();
}

std::string list(const std::string& checkpoints_dir) {
  const auto entries = detail::scan(checkpoints_dir, detail::Look::at_files);
  const auto unfinished = detail::unfinished(checkpoints_dir);
  if (entries.empty() && unfinished.empty()) return fmt::format("no checkpoints in {}\n", checkpoints_dir);
  const std::string latest = detail::read_latest(checkpoints_dir);
  std::string table = fmt::format("{:<14} {:>10} {:>15} {:>10} {:>6} {:<6} {:<20} {}\n", "checkpoint", "step",
                                  "tokens", "size", "ranks", "mode", "saved (UTC)", "state");
  for (const auto& e : entries) {
    if (e.condition != detail::Condition::whole) {
      const char* what = e.condition == detail::Condition::damaged ? "damaged" : "cannot be read";
      table += fmt::format("{:<14} {:>10} {}: {}\n", e.name, e.step, what, e.problem);
      continue;
    }
    table += fmt::format("{:<14} {:>10} {:>15} {:>10} {:>6} {:<6} {:<20} {}\n", e.name, e.run.step,
                         e.run.tokens, bytes_text(e.bytes), e.run.world, e.run.mode, e.saved_at,
                         e.name == latest ? "whole, latest" : "whole");
  }
  for (const auto& name : unfinished) {
    table += fmt::format("{:<25} unfinished (the next save removes it)\n", name);
  }
  return table;
}

}  // namespace weft::ckpt
