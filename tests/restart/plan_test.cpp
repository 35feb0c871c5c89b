// Tests `weft plan`, which says without ranks what a run will do.
#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

class PlanCommand : public Workspace {
 protected:
  Ended plan(std::vector<std::string> more) const {
    more.insert(more.begin(), {"plan", deck()});
    return run(weft(more));
  }
};

/// The number that stands `field` words after `label` in the first line that contains the label.
double number_after(const std::string& text, const std::string& label) {
  const auto at = text.find(label);
  if (at == std::string::npos) ADD_FAILURE() << label << " is not in\n" << text;
  return at == std::string::npos ? -1 : std::stod(text.substr(at + label.size()));
}

TEST_F(PlanCommand, IsThePlanOfTheRun) {
  const Ended planned = plan({"--world", "2", "--ranks-per-host", "2"});
  EXPECT_STATUS(planned, 0);
  EXPECT_NE(planned.out.find("130880 parameters in 6 units, mesh data=2"), std::string::npos) << planned.out;
  const Ended trained = run(weft_on(2, train("run", {"run.steps=2"})));
  EXPECT_STATUS(trained, 0);
  const auto hash = planned.out.find("hash ");
  ASSERT_NE(hash, std::string::npos) << planned.out;
  EXPECT_NE(trained.err.find("plan " + planned.out.substr(hash + 5, 16)), std::string::npos)
      << planned.out << trained.err;
  EXPECT_EQ(number_after(planned.out, "\n  arena "), metrics(run_dir("run")).at(0).at("arena_peak_bytes"));
}

/// With fsdp, six rounds gather six units forward and the four of the layers backward, and reduce six
/// gradients.
TEST_F(PlanCommand, CountsTheCollectives) {
  const Ended fsdp = plan({"--world", "2", "--set", "schedule.bucketing=none"});
  EXPECT_EQ(number_after(fsdp.out, "forward all_gather f32"), 36);
  EXPECT_EQ(number_after(fsdp.out, "backward all_gather f32"), 24);
  EXPECT_EQ(number_after(fsdp.out, "reduce_scatter f32"), 36);
  const Ended alone = plan({"--world", "1"});
  EXPECT_STATUS(alone, 0);
  EXPECT_EQ(alone.out.find("all_gather"), std::string::npos) << alone.out;
  // Twelve ranks have a round each, and a sixth of the master weights.
  const Ended twelve = plan({"--world", "12", "--set", "schedule.bucketing=none"});
  EXPECT_EQ(number_after(twelve.out, "reduce_scatter f32"), 6);
  EXPECT_LT(number_after(twelve.out, "\n  master "), 0.2 * number_after(fsdp.out, "\n  master "));
}

/// What each place of a pipe takes, in GiB, by the plan's table: state and arena together.
std::vector<double> places(const std::string& text) {
  std::vector<double> taken;
  std::istringstream lines(text.substr(std::min(text.find("\npipe: "), text.size())));
  for (std::string line; std::getline(lines, line);) {
    if (line.find('%') == std::string::npos || line.find(" GiB ") == std::string::npos) continue;
    std::vector<std::string> words;
    std::istringstream in(line);
    for (std::string word; in >> word;) words.push_back(word);
    const auto third = words.end() - 5;  // "... 57.86 GiB 8 22.8% HASH"
    EXPECT_EQ(*(third + 1), "GiB") << line;
    taken.push_back(std::stod(*third));
  }
  return taken;
}

/// Every stage of Llama 3.1 405B fits an 80 GB device on the mesh of its paper, and on 512 of them.
TEST_F(PlanCommand, TheLargestDeckFitsItsMeshes) {
  const std::vector<std::string> of_the_deck{"--world", "16384"},
      smaller{"--world", "512",
              "--set",   "parallel.mesh={ pipe = 8, tensor = 8 }",
              "--set",   "data.global_batch=256"};
  for (const auto& [stages, arguments] : {std::pair(16U, of_the_deck), std::pair(8U, smaller)}) {
    std::vector<std::string> command{"plan", WEFT_SOURCE_DIR "/inputs/llama3_405b.toml"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Ended planned = run(weft(command));
    EXPECT_STATUS(planned, 0);
    const std::vector<double> taken = places(planned.out);
    EXPECT_EQ(taken.size(), stages) << planned.out;
    for (const double gib : taken) EXPECT_LT(gib, 80e9 / (1 << 30)) << planned.out;
  }
}

/// The line of the plan that begins with `start`, or nothing.
std::string line_of(const std::string& text, const std::string& start) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(start)) return line;
  return {};
}

/// A plan that is larger than the machine is shown, and says so. In a pipe the fullest place counts.
TEST_F(PlanCommand, SaysWhereTheMachineHasTooLittleMemory) {
  std::vector<std::string> large{"--world", "2", "--machine", "h100"};
  for (const char* set : {"model.dim=16384", "model.heads=128", "model.kv_heads=8", "model.ffn=65536",
                          "model.vocab=128256", "data.global_batch=2"})
    large.insert(large.end(), {"--set", set});
  const Ended planned = plan(large);
  EXPECT_STATUS(planned, 0);
  const std::string warning = line_of(planned.out, "warning: state and arena take ");
  EXPECT_NEAR(number_after(warning, "take "), number_after(planned.out, "a run of it needs "), 0.011)
      << planned.out;
  EXPECT_NE(warning.find(" GiB on a rank, and it has 68.55 GiB (H100 SXM 80 GB); `weft advise` finds "),
            std::string::npos)
      << planned.out;
  large.insert(large.end(), {"--set", "parallel.mesh={ pipe = 2 }", "--set", "pipeline.layers=[0, 2]"});
  const Ended in_a_pipe = plan(large);
  EXPECT_STATUS(in_a_pipe, 0);
  const std::vector<double> taken = places(in_a_pipe.out);
  ASSERT_EQ(taken.size(), 2U) << in_a_pipe.out;
  EXPECT_GT(taken[1], taken[0] + 1) << in_a_pipe.out;
  EXPECT_NEAR(number_after(line_of(in_a_pipe.out, "warning: state and arena take "), "take "), taken[1],
              0.011)
      << in_a_pipe.out;
  const Ended small = plan({"--world", "2", "--machine", "h100"});
  EXPECT_STATUS(small, 0);
  EXPECT_EQ(line_of(small.out, "warning: "), "");
}

/// What `weft train` is refused for, `weft plan` shows, and ends with the same code.
TEST_F(PlanCommand, EndsAsARunDoesThatNeedsMoreThanItsLimit) {
  const auto with_limit = [&](const std::string& limit) {
    return plan({"--world", "2", "--set", "data.seq=512", "--set", "data.batch=2", "--set", "model.dim=256",
                 "--set", "run.memory_limit=" + limit});
  };
  const Ended free = with_limit("4GiB");
  EXPECT_STATUS(free, 0);
  ASSERT_NE(free.out.find(" MiB on a rank (state "), std::string::npos) << free.out;
  const double needed = number_after(free.out, "a run of it needs "),
               baseline = number_after(free.out, ", baseline ");
  ASSERT_GT(needed, baseline + 8) << "too little to tell the two apart";
  const Ended over = with_limit(std::to_string(static_cast<int>((needed + baseline) / 2)) + "MiB");
  EXPECT_STATUS(over, 2);
  const auto errors = over.lines("weft: error:");
  ASSERT_EQ(errors.size(), 1U) << over.err;
  for (const char* text : {"--set: run.memory_limit: the run needs ", " MiB on a rank (state ",
                           "), the limit is ", ".00 MiB; `weft advise` finds arrangements that fit"})
    EXPECT_NE(errors[0].find(text), std::string::npos) << errors[0];
  EXPECT_NE(over.out.find("a run of it needs "), std::string::npos) << over.out;
}

/// What the process takes without a model is left of no arrangement.
TEST_F(PlanCommand, ALimitBelowTheProcessIsToldAsOne) {
  const std::vector<std::string> limit{"--world", "2", "--set", "run.memory_limit=1MiB"};
  const Ended planned = plan(limit);
  EXPECT_STATUS(planned, 2);
  EXPECT_EQ(planned.lines("weft: error:").size(), 1U) << planned.err;
  EXPECT_NE(planned.err.find("), the limit is 1.00 MiB; the baseline alone is more, and another mesh "
                             "hardly changes that: use fewer threads a rank, or raise run.memory_limit"),
            std::string::npos)
      << planned.err;
  std::vector<std::string> advise{"advise", deck()};
  advise.insert(advise.end(), limit.begin(), limit.end());
  const Ended advised = run(weft(advise));
  EXPECT_STATUS(advised, 2);
  ASSERT_EQ(advised.lines("weft: error: --set: run.memory_limit: the process alone takes ").size(), 1U)
      << advised.err;
  EXPECT_NE(advised.err.find("and the limit is 1.00 MiB; raise run.memory_limit"), std::string::npos)
      << advised.err;
}

/// What is left to arrangements of a run's limit has room for the baseline that their plans then have, also
/// for what saving takes: 22 MiB of this model. The plans themselves take a few MiB, which is not known
/// before.
TEST_F(PlanCommand, ArrangementsAreLeftWhatTheirPlansHave) {
  const std::string table = "model.vocab=65536";
  const Ended planned = plan({"--set", table});
  EXPECT_STATUS(planned, 0);
  const double baseline = number_after(planned.out, ", baseline ");
  for (const char* command : {"advise", "plan", "train"}) {
    const Ended ended = run(weft({command, deck(), "--set", table, "--set", "run.dir=" + run_dir("run"),
                                  "--set", "parallel.mesh=auto", "--set", "run.memory_limit=1MiB"}));
    EXPECT_STATUS(ended, 2);
    EXPECT_GT(number_after(ended.err, "run.memory_limit: the process alone takes ") + 8, baseline)
        << command << ": " << ended.err << planned.out;
  }
}

/// All commands that go by the machine's rates say so, and on a host the run itself.
TEST_F(PlanCommand, SaysWhereFloat8GainsNothing) {
  const std::string params = "precision.params=bf16", float8 = "precision.float8=[\"layers.0-1\"]";
  const std::string told = "--set: precision.float8: A100 SXM 80 GB makes no products in Float8";
  for (const char* command : {"plan", "advise"})
    for (const char* machine : {"a100", "h100"}) {
      SCOPED_TRACE(std::string(command) + " " + machine);
      const Ended ended = run(
          weft({command, deck(), "--world", "2", "--machine", machine, "--set", params, "--set", float8}));
      EXPECT_STATUS(ended, 0);
      EXPECT_EQ(ended.out.find("warning: " + told) != std::string::npos, machine == std::string("a100"))
          << ended.out;
    }
  const Ended trained = run(weft(train("run", {"run.steps=2", params, float8})));
  EXPECT_STATUS(trained, 0);
  EXPECT_NE(trained.err.find(" makes no products in Float8"), std::string::npos) << trained.err;
}

/// A small rate has digits, too.
TEST_F(PlanCommand, TellsARateInThreeDigits) {
  const Ended slow = plan({"--world", "1", "--set", "model.dim=65536", "--set", "model.heads=512", "--set",
                           "model.ffn=212992", "--set", "data.global_batch=1"});
  EXPECT_STATUS(slow, 0);
  const double step = number_after(slow.out, "predicted step "), tokens = number_after(slow.out, " s: ");
  EXPECT_LT(tokens, 1) << slow.out;
  EXPECT_NEAR(tokens * step, 24, 0.006 * 24) << slow.out;
}

TEST_F(PlanCommand, DumpAndDiffShowAPass) {
  const Ended before = plan({"--world", "2", "--dump-after=precision"});
  const Ended after = plan({"--world", "2", "--dump-after=shard"});
  EXPECT_STATUS(before, 0);
  EXPECT_STATUS(after, 0);
  EXPECT_TRUE(after.out.starts_with("graph train\nmesh data=2\nunit embed ")) << after.out.substr(0, 200);
  EXPECT_TRUE(before.out.starts_with("graph train\n")) << before.out.substr(0, 200);
  EXPECT_EQ(before.out.find("reduce_scatter"), std::string::npos);
  EXPECT_NE(after.out.find("reduce_scatter"), std::string::npos);
  const Ended diff = plan({"--world", "2", "--diff=shard"});
  EXPECT_STATUS(diff, 0);
  int added = 0, removed = 0;
  std::string last;
  std::istringstream lines(diff.out);
  for (std::string line; std::getline(lines, line); last = line)
    added += line.starts_with("+ "), removed += line.starts_with("- ");
  EXPECT_GT(removed, 0);
  EXPECT_GT(added, removed) << "sharding adds collectives";
  EXPECT_EQ(last, std::to_string(removed) + " lines removed, " + std::to_string(added) + " added");
  EXPECT_NE(diff.out.find("\n+ storage master.embed"), std::string::npos) << diff.out.substr(0, 2000);
}

/// The names in "(this plan runs fuse, autodiff, ...)".
std::set<std::string> names_of_passes(const std::string& error) {
  const std::string head = "(this plan runs ";
  std::set<std::string> names;
  const auto at = error.find(head), end = error.find(')', at);
  if (at == std::string::npos || end == std::string::npos) return names;
  std::istringstream list(error.substr(at + head.size(), end - at - head.size()));
  for (std::string name; std::getline(list >> std::ws, name, ',');) names.insert(name);
  return names;
}

/// A pass that changes nothing would stand in the list all the same.
TEST_F(PlanCommand, EveryPassChangesAStep) {
  struct Step {
    const char* ranks_per_host;
    std::vector<std::string> sets, passes;
  };
  const std::string float8 = "precision.float8=[\"layers.0-1\"]";
  const Step steps[] = {{"2",
                         {},
                         {"fuse", "autodiff", "update", "head", "precision", "recompute", "residual", "shard",
                          "share", "bucket", "order"}},
                        {"1", {}, {"rows"}},
                        {"2", {float8}, {"norms_apart", "float8"}},
                        {"2",
                         {float8, "parallel.mesh={ tensor = 2 }", "schedule.alternate=always"},
                         {"partition", "quantize_first", "hoist", "alternate"}},
                        {"2", {"parallel.mesh={ context = 2 }"}, {"context"}},
                        {"2", {"parallel.mesh={ pipe = 2 }"}, {"stage", "interleave"}}};
  std::set<std::string> ran, changed{"memory"};  // memory makes addresses of the graph, and has its own test
  for (const Step& step : steps) {
    std::vector<std::string> arguments{"--world", "2", "--ranks-per-host", step.ranks_per_host};
    for (const char* set : {"schedule.recompute=full", "precision.params=bf16", "schedule.bucketing=manual"})
      arguments.insert(arguments.end(), {"--set", set});
    for (const std::string& set : step.sets) arguments.insert(arguments.end(), {"--set", set});
    const auto diff = [&](const std::string& pass) {
      std::vector<std::string> all = arguments;
      all.push_back("--diff=" + pass);
      return plan(all);
    };
    ran.merge(names_of_passes(diff("none").err));
    for (const std::string& pass : step.passes) {
      const Ended ended = diff(pass);
      EXPECT_STATUS(ended, 0);
      EXPECT_NE(ended.out.find(" lines removed, "), std::string::npos) << pass << " changes nothing";
      changed.insert(pass);
    }
  }
  EXPECT_EQ(changed, ran) << "a pass that no step of this test shows";
}

/// A plan for a GPU is that of a GPU's build: it depends neither on what hosts alone do nor on their
/// processor.
TEST_F(PlanCommand, ForAGpuIsThatOfAGpusBuild) {
  const Ended rows = plan({"--world", "2", "--machine", "h100", "--diff=rows"});
  EXPECT_STATUS(rows, 2);
  EXPECT_NE(rows.err.find("no such pass: 'rows'"), std::string::npos) << rows.err;
  const auto arena = [&](const std::string& machine) {
    const Ended planned = plan({"--world", "2", "--machine", machine, "--set", "precision.params=bf16"});
    EXPECT_STATUS(planned, 0);
    const std::size_t at = planned.out.find("\n  arena ");
    return at == std::string::npos ? 0 : std::atoll(planned.out.c_str() + at + 9);
  };
  EXPECT_GT(arena("h100"), 32 << 20) << "cuBLASLt's workspace is larger than all of this model";
  EXPECT_LT(arena("host"), 32 << 20);
  const Ended any_order = plan({"--world", "2", "--machine", "h100", "--dump-after=autodiff", "--set",
                                "precision.deterministic=false"});
  EXPECT_NE(any_order.out.find("any_order"), std::string::npos);
}

/// A plan counts scratch for gradients as the run will where GPUs can read each other's memory within a host,
/// and says that it takes them to.
TEST_F(PlanCommand, CountsNoScratchOfGradientsThatAreRead) {
  struct Case {
    std::vector<std::string> more;
    bool scratch;
    std::string said;
  };
  const std::string set = "schedule.peer_reads=true", start = "schedule.peer_reads: gradients are ";
  const Case cases[] = {
      {{"--set", set}, false, start + "read where they stand, without scratch; "},
      {{"--set", set, "--ranks-per-host", "1"}, true, start + "taken to be sent as messages, "},
      {{}, true, ""}};
  for (const Case& one : cases) {
    std::vector<std::string> arguments{"--world", "2", "--machine", "h100"};
    arguments.insert(arguments.end(), one.more.begin(), one.more.end());
    const Ended planned = plan(arguments);
    EXPECT_STATUS(planned, 0);
    const std::string said = line_of(planned.out, "schedule.peer_reads: ");
    EXPECT_EQ(said.substr(0, one.said.size()), one.said);
    EXPECT_EQ(said.empty(), one.said.empty()) << said;
    arguments.emplace_back("--dump-after=memory");
    std::istringstream dump(plan(arguments).out);
    int reductions = 0, with_scratch = 0;
    for (std::string line; std::getline(dump, line);) {
      if (!line.starts_with("reduce ") || line.find(": reduce_scatter ") == std::string::npos) continue;
      ++reductions;
      with_scratch += line.find(" scratch[") == std::string::npos ? 0 : 1;
    }
    EXPECT_GT(reductions, 0);
    EXPECT_EQ(with_scratch, one.scratch ? reductions : 0);
  }
  const Ended advice = run(weft({"advise", deck(), "--world", "2", "--machine", "h100", "--set", set}));
  EXPECT_STATUS(advice, 0);
  EXPECT_NE(
      line_of(advice.out, start + "taken to need no scratch where the data axis stays within a host of 8"),
      "")
      << advice.out;
}

TEST_F(PlanCommand, AfterTheMemoryPassAreAddressesAndWaits) {
  const Ended planned = plan({"--world", "2", "--dump-after=memory", "--set", "schedule.bucketing=none"});
  EXPECT_STATUS(planned, 0);
  for (const char* part : {"\ngather 1: all_gather embed %", " <- %", "[arena 0..", "[master.embed 0..",
                           " after gather 1", "\nreduce 1: reduce_scatter "})
    EXPECT_NE(planned.out.find(part), std::string::npos) << part << " is not in\n"
                                                         << planned.out.substr(0, 2000);
}

TEST_F(PlanCommand, DrawsAPicture) {
  const Ended drawn = plan({"--world", "2", "--picture", path("plan.svg")});
  EXPECT_STATUS(drawn, 0);
  EXPECT_NE(drawn.out.find("\n  arena "), std::string::npos) << "beside the report";
  const std::string svg = read_file(path("plan.svg"));
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg.substr(0, 100);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("small on 2 ranks: step "), std::string::npos);
  const Ended nowhere = plan({"--world", "2", "--picture", path("no/where.svg")});
  EXPECT_STATUS(nowhere, 2);
  EXPECT_EQ(nowhere.lines("weft: error: cannot create " + path("no/where.svg")).size(), 1U) << nowhere.err;
}

TEST_F(PlanCommand, UnknownPassesAndRanksAreNamed) {
  for (const char* option : {"--diff=shrad", "--dump-after=shrad"}) {
    const Ended ended = plan({"--world", "2", option});
    EXPECT_STATUS(ended, 2);
    EXPECT_EQ(ended
                  .lines("weft: error: no such pass: 'shrad' (this plan runs fuse, autodiff, update, head, "
                         "precision, residual, "
                         "shard, share, rows, bucket, order, memory)")
                  .size(),
              1U)
        << ended.err;
  }
  const Ended both = plan({"--world", "2", "--dump-after=shard", "--diff=shrad"});
  EXPECT_STATUS(both, 2);
  const Ended ranks = plan({"--world", "7"});
  EXPECT_STATUS(ranks, 2);
  EXPECT_EQ(ranks.lines("weft: error:").size(), 1U) << ranks.err;
  EXPECT_EQ(ranks.out, "");
}

TEST_F(PlanCommand, NumbersOutOfRangeAreToldInOneShortLine) {
  for (const char* world : {"0", "-1", "two", "1.5"}) {
    const Ended ended = plan({"--world", world});
    EXPECT_STATUS(ended, 2);
    EXPECT_EQ(ended.err,
              std::string("weft: error: --world: ") + world +
                  " is not a whole number from 1 to 2147483647 (see weft --help, or weft COMMAND --help)\n");
  }
  const Ended holders = plan({"--holders", "-1"});
  EXPECT_STATUS(holders, 2);
  EXPECT_NE(holders.err.find("--holders: -1 is not a whole number from 0 to 2147483647"), std::string::npos);
  const Ended seconds = run(weft({"profile", "--seconds", "0"}));
  EXPECT_STATUS(seconds, 2);
  EXPECT_NE(seconds.err.find("--seconds: 0 is not a number above 0"), std::string::npos) << seconds.err;
}

/// The ranks are counted by arithmetic. A look at each pair of a million would take half an hour.
TEST_F(PlanCommand, AMillionRanksAreRefusedAtOnce) {
  const Ended ended = plan({"--world", "1000000"});
  EXPECT_STATUS(ended, 2);
  ASSERT_EQ(ended.lines("weft: error:").size(), 1U) << ended.err;
  EXPECT_NE(ended.err.find("use 12 ranks, or global_batch = 1000000"), std::string::npos) << ended.err;
}

/// Tests teams of 6 ranks, on hosts of a given number of ranks, where ranks of a group of the data axis share
/// a host.
TEST_F(PlanCommand, RanksOfAHostAreATeamWhereEachHostHasAsMany) {
  const auto has_team = [&](const char* mesh, const char* per_host, const char* team) {
    const Ended ended = plan({"--world", "6", "--ranks-per-host", per_host, "--set",
                              std::string("parallel.mesh=") + mesh, "--dump-after=share"});
    EXPECT_STATUS(ended, 0);
    const bool has = ended.out.find(std::string("team=") + team) != std::string::npos;
    return has;
  };
  EXPECT_TRUE(has_team("{ data = 0 }", "3", "3"));
  EXPECT_TRUE(has_team("{ replica = 2, data = 0 }", "3", "3"));
  EXPECT_FALSE(has_team("{ data = 0 }", "4", "")) << "hosts of four and of two";
  EXPECT_FALSE(has_team("{ replica = 3, data = 2 }", "3", "")) << "groups of two across hosts of three";
}

}  // namespace
}  // namespace weft::test
