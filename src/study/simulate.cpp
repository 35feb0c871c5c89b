// Simulates a cell (declared in cell.hpp).
#include <fmt/core.h>

#include <cmath>
#include <exception>

#include "advise/advise.hpp"
#include "base/check.hpp"
#include "base/version.hpp"
#include "compile/machine_profile.hpp"
#include "compile/predicted_step.hpp"
#include "compile/scheduling.hpp"
#include "compile/teams.hpp"
#include "exec/scratch.hpp"
#include "report/flops.hpp"
#include "study/cell.hpp"
#include "study/child.hpp"

namespace weft::study {
namespace {

/// On a host a kernel says what scratch it needs when it is bound. A study binds none, so nothing is counted.
std::int64_t no_scratch(const ir::Graph&, const ir::Node&) {
  return 0;
}

/// The deck with the settings that parallel.mesh = "auto" stands for.
Deck with_mesh(const Deck& deck, Cell& cell, int per_host, const machine::CostModel& costs,
               const plan::ScratchQuery& scratch) {
  if (!deck.parallel.mesh.empty()) return deck;
  const std::vector<std::string> chosen =
      advise::chosen_settings({deck, cell.ranks, per_host, {}, costs, scratch});
  cell.sets.insert(cell.sets.end(), chosen.begin(), chosen.end());
  return parse_deck(cell.deck, cell.sets);
}

}  // namespace

Result simulate(const Study& study, const Cell& cell) {
  Result result;
  result.key = key_of(study, cell);
  result.version = fmt::format("{} ({})", weft_version(), weft_git_hash());
  std::vector<std::string> words{"weft", "plan", cell.deck, "--world", std::to_string(cell.ranks)};
  for (const std::string& set : cell.sets) words.insert(words.end(), {"--set", set});
  result.command = shell_line(words);
  try {
    Cell whole = cell;
    const Deck given = parse_deck(cell.deck, cell.sets);
    const machine::CostModel costs(compile::machine_profile(given));
    const plan::ScratchQuery scratch =
        costs.profile().compute.on_gpu() ? exec::gpu_scratch_query(costs.profile().compute) : no_scratch;
    const int per_host = costs.profile().ranks_per_node;
    if (costs.profile().compute.threads > 0) result.command += fmt::format(" --ranks-per-host {}", per_host);
    const Deck deck = compile::planned_for(
        costs.profile(),
        with_mesh(compile::planned_for(costs.profile(), given), whole, per_host, costs, scratch));
    Mesh mesh = resolve_mesh(deck, cell.ranks);
    mesh.set_teams(compile::teams_of(deck, mesh, costs.profile(), per_host));
    result.mesh = advise::mesh_text(advise::arrangement_of(deck, cell.ranks));
    const compile::PredictedStep step = compile::predicted_step(deck, mesh, scratch, costs, 0);
    const double limit = compile::memory_limit(deck, costs, 0);
    if (limit > 0 && static_cast<double>(step.bytes) > limit) {
      result.status = Status::refused;
      result.message = fmt::format("a rank needs {:.1f} GiB, the machine has {:.1f}",
                                   static_cast<double>(step.bytes) / (1 << 30), limit / (1 << 30));
      return result;
    }
    result.step_s = step.seconds;
    result.tokens_per_s =
        static_cast<double>(deck.data.global_batch * deck.data.seq) / cell.ranks / step.seconds;
    const machine::Compute& compute = costs.profile().compute;
    const double peak = deck.precision.params == DType::bf16 ? compute.peak_bf16 : compute.peak_f32;
    if (const auto mfu =
            report::mfu(result.tokens_per_s, report::flops_per_token(report::model_size(deck)), peak))
      result.mfu = *mfu;
    result.exposed_s = step.data + step.tensor + step.context;
    result.idle_s = step.idle;
    result.memory_bytes = static_cast<double>(step.bytes);
  } catch (const Error& e) {
    result.status = Status::refused;
    result.message = e.what();
  } catch (const std::exception& e) {  // a mistake of ours costs one cell
    result.status = Status::failed;
    result.message = message_of(e);
  }
  return result;
}

}  // namespace weft::study
