// The text of an advice (declared in advise.hpp).
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "advise/advise.hpp"
#include "base/text.hpp"
#include "compile/machine_profile.hpp"
#include "compile/teams.hpp"

namespace weft::advise {
namespace {

double tokens_per_s(const Question& q, double seconds) {
  return static_cast<double>(q.deck.data.global_batch * q.deck.data.seq) / q.world / seconds;
}

/// The largest of what a step loses, or "compute" where that is little.
std::string limited_by(const compile::PredictedStep& step) {
  const std::array losses{
      std::pair("idle in the pipe", step.idle), std::pair("gathers and reductions", step.data),
      std::pair("collectives of tensor", step.tensor), std::pair("collectives of context", step.context)};
  const auto largest = std::max_element(losses.begin(), losses.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  const double share = largest->second / step.seconds;
  return share < 0.02 ? "compute" : fmt::format("{} {:.0f} %", largest->first, 100 * share);
}

std::string row_text(const std::string& name, const Row& row, const Question& q, std::size_t mesh_width) {
  const Arrangement& a = row.arrangement;
  const std::string text =
      fmt::format("  {:>5}  {:<{}} {:<5} {:<14} {:>5} {:<9} ", name, mesh_text(a), mesh_width,
                  name_of(a.mode), schedule_text(a), a.batch, name_of(a.recompute));
  if (row.refused) return text + fmt::format("no plan: {}\n", row.refused->what());
  return text + fmt::format("{:>9.0f} {:>9.4g} {:>10}  {:<28} {}\n", tokens_per_s(q, row.step.seconds),
                            row.step.seconds, bytes_text(row.step.bytes), limited_by(row.step), row.next);
}

}  // namespace

std::string to_text(const Advice& advice, const Question& q) {
  std::string text = fmt::format(
      "{} ranks of {}, {} a host; steps of {} sequences of {} tokens\n"
      "{} arrangements, {} estimated to fit {} (recomputing only where they have to), {} planned\n\n",
      q.world, q.costs.profile().name, q.per_host, q.deck.data.global_batch, q.deck.data.seq, advice.possible,
      advice.fitting,
      advice.limit > 0 ? bytes_text(static_cast<std::int64_t>(advice.limit)) + " a rank" : "any memory",
      advice.planned);
  std::size_t width = 4;
  for (const Row& row : advice.rows) width = std::max(width, mesh_text(row.arrangement).size());
  if (advice.given) width = std::max(width, mesh_text(advice.given->arrangement).size());
  text += fmt::format("  {:>5}  {:<{}} {:<5} {:<14} {:>5} {:<9} {:>9} {:>9} {:>10}  {:<28} {}\n", "", "mesh",
                      width, "mode", "schedule", "batch", "recompute", "tokens/s", "step, s", "memory",
                      "limited by", "what would help");
  for (std::size_t i = 0; i < advice.rows.size(); ++i)
    text += row_text(fmt::format("{}", i + 1), advice.rows[i], q, width);
  if (advice.given) text += row_text("deck", *advice.given, q, width);
  text +=
      "\n  tokens/s: of a rank; memory: state and arena of the fullest rank; deck: the deck as it stands\n";
  text += "\nThe first as settings:\n ";
  for (const std::string& setting : settings(advice.rows.front().arrangement))
    text += fmt::format(" --set {}", setting.find(' ') == std::string::npos ? setting : "'" + setting + "'");
  const machine::Profile& machine = q.costs.profile();
  const bool share = machine.compute.threads > 0 && q.per_host > 1;  // ranks of a host share memory
  const bool read = compile::wants_peer_reads(q.deck, machine);
  if (share || (read && q.per_host != machine.ranks_per_node))
    text += fmt::format("\n  (weft plan takes --ranks-per-host {} beside them)", q.per_host);
  if (read)
    text += fmt::format(
        "\n\nschedule.peer_reads: gradients are taken to need no scratch where the data axis stays within a "
        "host of {} ranks",
        q.per_host);
  if (const std::string float8 = compile::float8_text(q.deck, q.costs.profile()); !float8.empty())
    text += "\n\nwarning: " + float8;
  return text + "\n";
}

}  // namespace weft::advise
