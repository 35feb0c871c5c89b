#include "train/run_plans.hpp"

#include <utility>

#include "exec/scratch.hpp"
#include "train/agree.hpp"
#include "train/memory_usage.hpp"
#include "train/preflight.hpp"
#include "train/programs.hpp"
#include "train/scheduling.hpp"

namespace weft::train {

RunPlans make_run_plans(const Deck& deck, Session& session, const machine::CostModel& costs, bool validates) {
  const plan::ScratchQuery scratch = exec::scratch_query(session.matmuls());
  RunPlans plans;
  agree(session.world(), [&] {
    Chosen chosen = choose_schedule(deck, session.mesh(), scratch, costs);
    plans.schedule = schedule_text(chosen.options);
    plans.train =
        chosen.plan ? std::move(*chosen.plan) : training_plan(deck, session.mesh(), scratch, chosen.options);
    if (validates) plans.evaluate = evaluation_plan(deck, session.mesh(), scratch, chosen.options);
  });
  session.check_same_plan(plans.train);
  if (plans.evaluate) session.check_same_plan(*plans.evaluate);
  trim_heap();
  plans.memory = planned_memory(deck, plans.train, plans.evaluate ? &*plans.evaluate : nullptr,
                                memory_usage().rss_bytes, session.world().node_size());
  check_memory(deck, plans.memory, scratch, session.world());
  plans.step = planned_step(plans.train, costs);
  plans.step.memory_bytes = static_cast<double>(plans.memory.peak());
  return plans;
}

}  // namespace weft::train
