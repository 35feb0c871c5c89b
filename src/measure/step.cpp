#include "measure/step.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "base/step_block.hpp"
#include "comm/agree.hpp"
#include "compile/programs.hpp"
#include "data/batch_source.hpp"
#include "exec/scratch.hpp"
#include "machine/signature.hpp"
#include "measure/timing.hpp"
#include "ops/cost.hpp"
#include "passes/passes.hpp"
#include "runtime/inputs.hpp"
#include "runtime/memory_usage.hpp"
#include "runtime/model_state.hpp"
#include "runtime/preflight.hpp"

namespace weft::measure {
namespace {

/// The plan's kernels by signature.
struct Kernels {
  std::map<std::string, std::size_t> place;
  std::vector<std::size_t> of_span;  ///< by compute instruction: its index in `samples`
  std::vector<machine::KernelSample> samples;
};

Kernels kernels_of(const plan::Plan& plan) {
  Kernels k;
  for (const plan::Instruction& i : plan.instructions) {
    if (i.lane != Lane::compute) continue;
    const ir::Node& node = plan.graph.node(i.node);
    std::string name = machine::signature(plan.graph, node);
    const auto [it, is_new] = k.place.try_emplace(name, k.samples.size());
    if (is_new) {
      const ops::Cost cost = ops::cost(plan.graph, node);
      k.samples.push_back({std::move(name), 0, cost.flops, cost.bytes});
    }
    k.of_span.push_back(it->second);
  }
  return k;
}

/// Makes one traced run, and adds each node's seconds to its signature's.
void run_traced(exec::Executor& executor, const Kernels& k, std::vector<std::vector<double>>& seconds) {
  exec::Trace trace(k.of_span.size());
  executor.run(exec::Run::compute_only, &trace);
  const auto spans = trace.spans(Lane::compute);
  for (std::size_t i = 0; i < spans.size(); ++i)
    seconds[k.of_span[i]].push_back(1e-9 * static_cast<double>(spans[i].end_ns - spans[i].start_ns));
}

/// The mean of the middle half of the values. A kernel that was interrupted does not count, and the sum over
/// a step's nodes is still about the step's time.
double middle_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t cut = values.size() / 4;
  double sum = 0;
  for (std::size_t i = cut; i < values.size() - cut; ++i) sum += values[i];
  return sum / static_cast<double>(values.size() - 2 * cut);
}

}  // namespace

std::vector<machine::KernelSample> of_all_ranks(comm::World& world,
                                                const std::vector<machine::KernelSample>& own) {
  std::string mine, all;
  for (const machine::KernelSample& k : own)
    mine += fmt::format("{} {} {} {}\n", k.seconds, k.flops, k.bytes, k.signature);
  for (const std::string& text : world.gather_strings(mine)) all += text;
  std::map<std::string, machine::KernelSample> by_signature;
  std::istringstream lines(world.broadcast(all, 0));
  for (machine::KernelSample k; lines >> k.seconds >> k.flops >> k.bytes;) {
    lines.ignore(1);
    std::getline(lines, k.signature);
    double& slowest = by_signature.try_emplace(k.signature, k).first->second.seconds;
    slowest = std::max(slowest, k.seconds);
  }
  std::vector<machine::KernelSample> kernels;
  for (auto& [signature, kernel] : by_signature) kernels.push_back(std::move(kernel));
  return kernels;
}

Step::Step(const Deck& deck, runtime::Session& session) : session_(session) {
  plan::Plan plan;
  session.reserve([&] {
    const plan::ScratchQuery scratch = exec::scratch_query(session.matmuls());
    const auto make = [&](const Deck& of, const Mesh& mesh, int place) {
      passes::PassOptions options = compile::pass_options(of, mesh, place);
      // What recompute = budget leads to would need the profile. Computing all again takes the same kernels,
      // and the least memory.
      if (of.schedule.recompute == Recompute::budget) options.recompute.what = Recompute::full;
      return compile::training_plan(of, mesh, scratch, options);
    };
    const auto memory_of = [&](const Deck& of, const plan::Plan& step) {
      return runtime::planned_memory(of, step, nullptr, runtime::held_bytes(session.world()),
                                     session.world().node_size());
    };
    comm::agree(session.world(), [&] { plan = make(deck, session.mesh(), session.pipe_rank()); });
    session.check_same_plan(plan);
    const auto replan = [&](const Deck& changed, int ranks, int place) {
      Mesh mesh = resolve_mesh(changed, ranks);
      mesh.set_teams(session.teams_of(ranks));
      return memory_of(changed, make(changed, mesh, place));
    };
    runtime::check_memory(deck, memory_of(deck, plan), replan, session.world());
    algorithms_ = choose_algorithms(session);
    return std::vector<const plan::Plan*>{&plan};
  });
  executor_ = session.bind(std::move(plan));
  runtime::upload_rope_table(session, deck);
  upload_inputs(deck);
  // The numbers are like those of training, because products by AMX take less time for zeros. A whole step
  // brings parameters that are gathered in place.
  runtime::ModelState(session, this->plan())
      .initialize(static_cast<std::uint64_t>(deck.run.seed), deck.model.init_std, deck.model.layers);
  executor_->run(exec::Run::full);
}

void Step::upload_inputs(const Deck& deck) {
  const auto batches = data::synthetic_batches(static_cast<std::uint64_t>(deck.run.seed), deck.model.vocab,
                                               {deck.data.batch, deck.data.global_batch, deck.data.seq});
  runtime::MicrobatchBuffers buffers(deck.data.batch, deck.data.seq);
  runtime::upload_step(session_, *batches, 0, accumulation(deck, session_.batch_ranks()), buffers);
  StepBlock block;
  block.step = 1;
  block.hold = 1;
  kernels::copy_to_device(session_.space(), session_.memory().storage(passes::step_name), &block,
                          sizeof block);
}

double Step::seconds(double seconds) {
  run();  // sets libraries up; on GPUs the next run is captured
  const double first = slowest(session_.world(), seconds_of([this] { run(); }));
  return time_together(session_.world(), static_cast<int>(std::clamp(seconds / first, 1.0, 3.0)),
                       [this] { run(); });
}

std::vector<machine::KernelSample> Step::kernels(double seconds) {
  Kernels k = kernels_of(executor_->plan());
  std::vector<std::vector<double>> by_place(k.samples.size());
  const double first = slowest(session_.world(), seconds_of([&] { run_traced(*executor_, k, by_place); }));
  for (auto& values : by_place) values.clear();  // that run warmed up
  const int runs = static_cast<int>(std::clamp(seconds / first, 1.0, 5.0));
  for (int run = 0; run < runs; ++run) {
    session_.world().barrier();
    run_traced(*executor_, k, by_place);
  }
  for (std::size_t i = 0; i < by_place.size(); ++i)
    k.samples[i].seconds = std::max(middle_mean(std::move(by_place[i])), 1e-9);
  return of_all_ranks(session_.world(), k.samples);
}

}  // namespace weft::measure
