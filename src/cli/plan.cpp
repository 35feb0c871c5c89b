// The command `weft plan`.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <thread>

#include "base/check.hpp"
#include "base/quoted.hpp"
#include "base/text.hpp"
#include "cli/auto_mesh.hpp"
#include "cli/commands.hpp"
#include "cli/world.hpp"
#include "compile/machine_profile.hpp"
#include "compile/planned_pipe.hpp"
#include "compile/programs.hpp"
#include "compile/scheduling.hpp"
#include "compile/stage_times.hpp"
#include "compile/teams.hpp"
#include "exec/scratch.hpp"
#include "io/small_file.hpp"
#include "ir/text.hpp"
#include "machine/elsewhere.hpp"
#include "machine/predict.hpp"
#include "plan/picture.hpp"
#include "plan/report.hpp"
#include "plan/simulate.hpp"
#include "report/flops.hpp"
#include "runtime/planned_memory.hpp"
#include "runtime/preflight.hpp"

namespace weft::cli {
namespace {

struct PlanArguments {
  DeckArguments deck;
  int world = 1;
  std::optional<int> per_host;
  int pipe_rank = 0;
  int holders = 8;
  std::string machine;
  std::string dump_after, diff;
  std::string picture;
};

/// Prints the graph after a pass, or what a pass changed, and remembers which of the two passes it has not
/// seen yet.
class Dump {
 public:
  explicit Dump(const PlanArguments& arguments)
      : arguments_(arguments), missing_{arguments.dump_after, arguments.diff} {
    missing_.erase("");
  }

  void operator()(const passes::Pass& pass, const ir::Graph& before, const ir::Graph& after) {
    names_ += (names_.empty() ? "" : ", ") + pass.name;
    missing_.erase(pass.name);
    if (pass.name == arguments_.dump_after) std::fputs(ir::print(after).c_str(), stdout);
    if (pass.name == arguments_.diff)
      std::fputs(ir::diff(ir::print(before), ir::print(after)).c_str(), stdout);
  }
  bool wanted() const { return !arguments_.dump_after.empty() || !arguments_.diff.empty(); }
  /// Prints what the memory pass adds. That pass makes no graph, but the plan, with its addresses and waits.
  void operator()(const plan::Plan& plan) {
    names_ += ", " + std::string(memory);
    missing_.erase(memory);
    if (arguments_.dump_after == memory) std::fputs(plan::print_instructions(plan).c_str(), stdout);
    WEFT_VALIDATE(arguments_.diff != memory,
                  "--diff=memory: the pass adds addresses to the graph and changes nothing "
                  "in it; see --dump-after=memory");
  }
  void check() const {
    WEFT_VALIDATE(missing_.empty(), "no such pass: '{}' (this plan runs {})", *missing_.begin(), names_);
  }

 private:
  static constexpr const char* memory = "memory";
  const PlanArguments& arguments_;
  std::string names_;
  std::set<std::string> missing_;
};

void write_picture(const std::string& path, const plan::Plan& plan, const machine::LaneTimes& times,
                   const Deck& deck) {
  io::replace_file(path, plan::picture(plan, times, deck.run.name), io::Named::by_user);
}

/// How many ranks there are on a rank's host. It is this host, unless the deck names a machine.
int neighbours(const PlanArguments& arguments, const Deck& deck, const machine::Profile& profile) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const bool here = deck.schedule.profile.empty() || deck.schedule.profile == "host";
  return std::min(arguments.world, arguments.per_host.value_or(here ? cores : profile.ranks_per_node));
}

/// What a rank of the planned place takes, by estimate.
runtime::PlannedMemory memory_of_a_rank(const Deck& deck, const plan::Plan& plan,
                                        const PlanArguments& arguments, const machine::Profile& profile) {
  runtime::PlannedMemory memory = runtime::planned_memory(
      deck, plan, nullptr, resident_bytes(arguments.world), neighbours(arguments, deck, profile));
  // On a GPU the copy is in its host's memory, which is not planned.
  memory.copy = profile.compute.on_gpu() ? 0 : runtime::state_copy_bytes(deck, plan);
  if (machine::is_gpu_elsewhere(profile.compute)) memory.baseline = memory.loading = 0;
  return memory;
}

/// What a rank of the fullest place on the pipe takes, of which the planned place takes `memory`. A run that
/// has no room for the copy of the state goes without it.
runtime::PlannedMemory of_the_fullest(runtime::PlannedMemory memory,
                                      const std::optional<compile::PlannedPipe>& pipe) {
  memory.copy = 0;
  if (!pipe) return memory;
  for (const compile::PlannedRank& rank : pipe->ranks) {
    if (rank.state_bytes + rank.arena_bytes <= memory.state + memory.arena) continue;
    memory.state = rank.state_bytes;
    memory.arena = rank.arena_bytes;
  }
  return memory;
}

/// A warning where state and arena are more than a rank of the machine can have, by which `weft advise` and
/// `weft study` go, too; else nothing.
std::string too_large_text(const runtime::PlannedMemory& memory, const machine::Profile& profile) {
  const auto has = static_cast<std::int64_t>(profile.compute.memory_bytes),
             takes = memory.state + memory.arena;
  if (has <= 0 || takes <= has) return {};
  return fmt::format(
      "warning: state and arena take {} on a rank, and it has {} ({}); `weft advise` finds arrangements that "
      "fit\n",
      bytes_text(takes), bytes_text(has), profile.name);
}

/// Throws Error(bad_input) where a run would be refused for run.memory_limit.
void check_limit(const Deck& deck, const runtime::PlannedMemory& memory) {
  const double limit = deck.run.memory_limit;
  const bool alone = static_cast<double>(memory.baseline) > limit;
  WEFT_VALIDATE(limit <= 0 || static_cast<double>(memory.needed()) <= limit, "{}",
                runtime::over_limit_text(
                    deck, runtime::to_text(memory),
                    alone ? runtime::above_by_baseline : "`weft advise` finds arrangements that fit"));
}

/// What the step's length means: tokens a second, and the share of the device's peak.
std::string rate_text(const Deck& deck, const Mesh& mesh, const machine::Profile& profile, double step_s) {
  const double tokens = static_cast<double>(deck.data.global_batch * deck.data.seq) / mesh.world() / step_s;
  const bool bf16 = deck.precision.params == DType::bf16;
  // No number has less than three digits.
  std::string text =
      fmt::format("\npredicted step {:.5g} s: {} tokens/s a rank", step_s,
                  tokens < 100 ? fmt::format("{:.3g}", tokens) : fmt::format("{:.0f}", tokens));
  if (const auto mfu = report::mfu(tokens, report::flops_per_token(report::model_size(deck)),
                                   bf16 ? profile.compute.peak_bf16 : profile.compute.peak_f32))
    text += fmt::format(", {:.1f} % MFU ({}, attention counted whole)", 100 * *mfu, bf16 ? "bf16" : "f32");
  return text + "\n";
}

void plan(const PlanArguments& arguments) {
  std::vector<std::string> sets = arguments.deck.sets;
  if (!arguments.machine.empty()) sets.push_back("schedule.profile=" + weft::quoted(arguments.machine));
  const Deck parsed = parse_deck(arguments.deck.file, sets);
  const machine::CostModel costs(compile::machine_profile(parsed));
  const Deck given = compile::planned_for(costs.profile(), parsed);
  const KernelsScope kernels(/*warnings=*/false);
  exec::Matmuls matmuls(given.precision.f32_products);
  // A mesh that is to be chosen is chosen for hosts, and planned on them. GPUs are timed on hosts, too.
  const bool on_hosts = given.parallel.mesh.empty() || costs.profile().compute.on_gpu();
  const int per_host = arguments.per_host.value_or(on_hosts ? costs.profile().ranks_per_node : 1);
  const Deck deck = with_mesh(given, arguments.world, per_host, costs, matmuls);
  Dump dump(arguments);
  Mesh mesh = resolve_mesh(deck, arguments.world);
  WEFT_VALIDATE(arguments.pipe_rank < mesh.size(pipe_axis), "--pipe-rank {}: the pipe has {} ranks",
                arguments.pipe_rank, mesh.size(pipe_axis));
  mesh.set_teams(compile::teams_of(deck, mesh, costs.profile(), per_host));
  const plan::ScratchQuery scratch = exec::scratch_query(matmuls, costs.profile().compute);
  const std::int64_t baseline =
      planned_baseline(deck, costs.profile(), mesh.world(),
                       runtime::talking_ranks(mesh, neighbours(arguments, deck, costs.profile())), mesh);
  compile::Chosen chosen =
      compile::choose_schedule(deck, mesh, scratch, costs, baseline, arguments.pipe_rank);
  if (dump.wanted()) chosen.plan.reset();  // so that the passes run where the dump sees them
  const plan::Plan plan = compile::take_plan(chosen, deck, mesh, scratch, std::ref(dump));
  dump(plan);
  dump.check();
  const machine::LaneTimes times = plan::simulate(plan, costs);
  if (!arguments.picture.empty()) write_picture(arguments.picture, plan, times, deck);
  if (!dump.wanted()) {
    const runtime::PlannedMemory memory = memory_of_a_rank(deck, plan, arguments, costs.profile());
    std::optional<compile::PlannedPipe> pipe;
    if (mesh.size(pipe_axis) > 1)
      pipe = compile::planned_pipe(deck, mesh, scratch, costs, baseline, {plan, arguments.pipe_rank});
    const runtime::PlannedMemory most = of_the_fullest(memory, pipe);
    std::fputs(plan::report(plan, {arguments.holders}).c_str(), stdout);
    std::fputs(("\n" + compile::schedule_text(chosen.options, plan) + "\n").c_str(), stdout);
    fmt::print("\na run of it {}, estimated\n", runtime::to_text(memory));
    if (const std::string text = compile::peer_reads_text(deck, mesh, costs.profile(), per_host);
        !text.empty())
      fmt::print("{}\n", text);
    std::fputs(too_large_text(most, costs.profile()).c_str(), stdout);
    if (const std::string text = compile::float8_text(deck, costs.profile()); !text.empty())
      fmt::print("warning: {}\n", text);
    const machine::Prediction prediction = machine::predict(plan.graph, costs);
    std::fputs(prediction_text(prediction, costs, compile::profile_source(deck)).c_str(), stdout);
    std::fputs(plan::timeline_text(times).c_str(), stdout);
    double step_s = times.end;
    if (pipe) {
      std::fputs(to_text(*pipe).c_str(), stdout);
      const double busy = pipe->timeline.busy[static_cast<std::size_t>(arguments.pipe_rank)];
      step_s = compile::seconds_in_pipe({times.end, times.exposed}, pipe->timeline.end - busy);
    }
    std::fputs(rate_text(deck, mesh, costs.profile(), step_s).c_str(), stdout);
    check_limit(deck, most);
  }
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "plan", "Plan a training step for any number of ranks, without them: nodes, collectives, memory");
  auto arguments = std::make_shared<PlanArguments>();
  add_deck_arguments(*command, arguments->deck)->required();
  command->add_option("--world", arguments->world, "Ranks to plan for")
      ->check(whole_number_from(1))
      ->capture_default_str();
  command->add_option("--machine", arguments->machine,
                      "Machine to plan for, as schedule.profile: " +
                          fmt::format("{}", fmt::join(machine::shipped_machine_names(), ", ")) +
                          ", or a file of `weft profile`");
  command
      ->add_option(
          "--ranks-per-host", arguments->per_host,
          "Ranks of a host, which share memory or, of GPUs, may read each other's; default: 1, and the "
          "machine's number on GPUs and where the mesh is chosen")
      ->check(whole_number_from(1));
  command
      ->add_option("--pipe-rank", arguments->pipe_rank,
                   "Place on the mesh's pipe, from 0, whose stages are planned")
      ->check(whole_number_from(0))
      ->capture_default_str();
  command->add_option("--holders", arguments->holders, "Rows of the table of the largest holders")
      ->check(whole_number_from(0))
      ->capture_default_str();
  command->add_option("--dump-after", arguments->dump_after,
                      "Print the graph after this pass instead; after 'memory', the plan's instructions");
  command->add_option("--diff", arguments->diff, "Print what this pass changes instead");
  command->add_option("--picture", arguments->picture,
                      "Also draw the predicted timeline and the memory of a rank into this file (SVG)");
  command->callback([arguments] { plan(*arguments); });
}

}  // namespace weft::cli
