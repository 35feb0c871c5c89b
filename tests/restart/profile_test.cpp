// Tests `weft profile`: the other commands read what it writes, and it says about what a run then takes.
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "machine/profile.hpp"
#include "restart/workspace.hpp"

namespace weft::test {
namespace {

class ProfileCommand : public Workspace {
 protected:
  std::string out() const { return path("machine.toml"); }
  /// Runs `weft profile DECK -o out() --seconds 4`, and more arguments, on some ranks.
  Ended measure(int ranks, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"profile", deck(), "-o", out(), "--seconds", "4"});
    return run(ranks == 1 ? weft(more) : weft_on(ranks, more), 120);
  }
  /// Runs `weft profile` in the directory of out().
  Ended profile_there(std::vector<std::string> more) const {
    std::vector<std::string> command{"bash", "-c", "cd \"$0\" && exec \"$@\"", path("")};
    more.insert(more.begin(), {"profile", "--seconds", "0.2"});
    const auto measuring = weft(more);
    command.insert(command.end(), measuring.begin(), measuring.end());
    return run(command);
  }
  machine::Profile written() const { return machine::parse_profile(read_file(out()), out()); }
  Ended plan(int ranks, const std::string& profile) const {
    return run(
        weft({"plan", deck(), "--world", std::to_string(ranks), "--set", "schedule.profile=" + profile}));
  }
};

double number_after(const std::string& text, const std::string& label) {
  const auto at = text.find(label);
  if (at == std::string::npos) ADD_FAILURE() << label << " is not in\n" << text;
  return at == std::string::npos ? -1 : std::stod(text.substr(at + label.size()));
}

testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in\n" << text;
}

/// Seconds of a step without its collectives: the median of a run's steps.
double compute_only(const std::string& run_dir) {
  std::vector<double> seconds;
  for (const auto& line : metrics(run_dir))
    if (line.at("kind") == "train")
      seconds.push_back(line.at("step_s").get<double>() - line.at("exposed_comm_s").get<double>());
  std::sort(seconds.begin(), seconds.end());
  return seconds.at(seconds.size() / 2);
}

/// Expects two times to be within a factor of a hundred. That says nothing about accuracy: it finds a mistake
/// in units, also on a machine that does something else meanwhile.
void expect_about(double predicted, double measured) {
  EXPECT_GT(predicted, measured / 100);
  EXPECT_LT(predicted, measured * 100);
}

TEST_F(ProfileCommand, OnTwoRanksMeasuresWhatAStepTakes) {
  const Ended measured = measure(2);
  EXPECT_STATUS(measured, 0);
  const machine::Profile profile = written();
  EXPECT_EQ(profile.ranks_per_node, 2);
  EXPECT_EQ(profile.compute.threads, 1);
  EXPECT_GT(profile.compute.memory_bytes, 0);
  ASSERT_EQ(profile.collectives.size(), 4U);
  for (const machine::CollectiveCurve& c : profile.collectives) {
    EXPECT_EQ(c.ranks, 2);
    EXPECT_EQ(c.nodes, 1);
    EXPECT_EQ(c.points.front().bytes, 1024);
    EXPECT_GE(c.points.back().bytes, 1 << 20) << name_of(c.op);
    EXPECT_LT(c.points.front().seconds, 0.1);
    const double rate = c.points.back().bytes / c.points.back().seconds;
    EXPECT_TRUE(rate > 1e6 && rate < 1e12) << rate;
  }
  EXPECT_TRUE(profile.sharing.link_bytes_per_s > 1e6 && profile.sharing.link_bytes_per_s < 1e12);

  const Ended planned = plan(2, out());
  EXPECT_STATUS(planned, 0);
  const double kernels = number_after(planned.out, "); ");
  EXPECT_GT(kernels, 100);
  EXPECT_NE(planned.out.find(" of " + std::to_string(static_cast<int>(kernels)) + " kernels measured"),
            std::string::npos)
      << "not every kernel of the deck was measured\n"
      << planned.out;
  EXPECT_STATUS(run(weft_on(2, train("run", {"run.steps=6", "schedule.profile=" + out()}))), 0);
  expect_about(number_after(planned.out, "sum of kernels"), compute_only(run_dir("run")));
  EXPECT_GT(number_after(planned.out, "gather lane, sum of collectives"), 0);
}

TEST_F(ProfileCommand, AloneAssumesTheCollectives) {
  const Ended measured = measure(1);
  EXPECT_STATUS(measured, 0);
  EXPECT_NE(measured.out.find("note: collectives need two ranks"), std::string::npos) << measured.out;
  EXPECT_TRUE(written().collectives == machine::default_profile(machine::DefaultProfile::host).collectives);
  const Ended planned = plan(1, out());
  EXPECT_STATUS(planned, 0);
  EXPECT_STATUS(run(weft(train("run", {"run.steps=6"}))), 0);
  expect_about(number_after(planned.out, "sum of kernels"), compute_only(run_dir("run")));
}

TEST_F(ProfileCommand, DefaultsHaveNames) {
  EXPECT_NE(plan(6, "h100").out.find("from defaults (H100 SXM 80 GB, "), std::string::npos);
  const Ended unnamed = run(weft({"plan", deck(), "--world", "6"}));
  EXPECT_NE(unnamed.out.find("from defaults (host default, "), std::string::npos) << unnamed.out;
}

/// With parallel.mesh = "auto" rank 0 chooses for all, and a run's deck has what was chosen. `weft plan`
/// chooses the same, and `weft advise` shows it.
TEST_F(ProfileCommand, AMeshIsChosenForRunsAndPlans) {
  const std::vector<std::string> open{deck(), "--set", "parallel.mesh=auto"};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), open.begin(), open.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Ended trained = run(weft_on(2, with({"train"}, {"--set", "run.dir=" + path("auto")})), 120);
  EXPECT_STATUS(trained, 0);
  EXPECT_TRUE(contains(trained.err, "parallel.mesh = \"auto\": parallel.mesh={ "));
  EXPECT_TRUE(contains(read_file(path("auto") + "/log.txt"), "parallel.mesh = \"auto\""));
  const std::string chosen = read_file(path("auto") + "/deck.toml");
  EXPECT_TRUE(contains(chosen, "\nmesh = { "));
  const Ended planned = run(weft(with({"plan"}, {"--world", "2", "--ranks-per-host", "2"})));
  EXPECT_STATUS(planned, 0);
  EXPECT_TRUE(contains(planned.out, "predicted step "));
  const Ended advised = run(weft(with({"advise"}, {"--world", "2", "--ranks-per-host", "2"})));
  EXPECT_STATUS(advised, 0);
  EXPECT_TRUE(contains(advised.out, "--set 'parallel.mesh={ "));
  const Ended nowhere = run(weft(with({"advise"}, {"--world", "2", "--keep", "run.steps"})));
  EXPECT_STATUS(nowhere, 2);
  EXPECT_TRUE(contains(nowhere.err, "--keep run.steps: no such key"));
}

/// Two machines of one rank a host, whose steps are attention and the two tables' traffic: a gather or a
/// reduction of a table takes five and a half times as long as a layer's attention forward. Two ranks of a
/// data axis compute 14 such times. Where whole tables travel they wait for the embedding at both ends; a
/// pipe waits for neither, and takes 21.
machine::Profile slow_link(int threads) {
  machine::Profile p = machine::default_profile(machine::DefaultProfile::host);
  constexpr double link = 4.5e7;
  p.ranks_per_node = 1;
  p.compute.threads = threads;
  p.compute.matmul_f32 = p.compute.matmul_bf16 = p.compute.bytes_per_s = 1e15;
  p.compute.attention = 1e9;
  p.compute.launch_s = 1e-9;
  p.sharing = {link, 1, 1, 0};
  p.collectives.clear();
  for (const ir::Op op : {ir::Op::all_gather, ir::Op::reduce_scatter, ir::Op::all_reduce})
    p.collectives.push_back(machine::assumed_curve(op, DType::f32, 2, 2, 1e-6, link));
  return p;
}

/// The values of --set in an advice: "... --set 'parallel.mesh={ data = 2 }' --set data.batch=1".
std::vector<std::string> settings_of(const std::string& advice) {
  constexpr std::string_view option = "--set ";
  std::vector<std::string> values;
  for (std::size_t at = advice.find(option); at != std::string::npos; at = advice.find(option, at)) {
    at += option.size();
    const bool quoted = advice[at] == '\'';
    if (quoted) ++at;
    values.push_back(advice.substr(at, advice.find_first_of(quoted ? "'" : " \n", at) - at));
  }
  return values;
}

/// A host that plans for a GPU chooses as the GPU's build would: whole embeddings are sent there.
TEST_F(ProfileCommand, AMeshForAGpuIsChosenWithoutWhatHostsAloneDo) {
  const auto command = [&](const char* name, const std::string& machine,
                           const std::vector<std::string>& more) {
    std::vector<std::string> words{name, deck(), "--world", "2", "--machine", machine};
    for (const char* set : {"model.layers=4", "model.vocab=65536", "data.seq=512", "data.global_batch=2",
                            "precision.head_rows=128", "pipeline.layers=[2, 2]", "pipeline.schedule=1f1b"})
      words.insert(words.end(), {"--set", set});
    words.insert(words.end(), more.begin(), more.end());
    return run(weft(words));
  };
  const std::vector<std::string> automatic{"--set", "parallel.mesh=auto"};
  const auto advised = [&](int threads) {
    const std::string machine = path(threads == 0 ? "gpu.toml" : "host.toml");
    write_file(machine, machine::print_profile(slow_link(threads)));
    std::vector<std::string> more{"--rows", "1", "--keep", "data.batch", "--keep", "pipeline.schedule"};
    more.insert(more.end(), automatic.begin(), automatic.end());
    const Ended ended = command("advise", machine, more);
    EXPECT_STATUS(ended, 0);
    return settings_of(ended.out);
  };
  const std::vector<std::string> of_host = advised(1), of_gpu = advised(0);
  ASSERT_FALSE(of_host.empty() || of_gpu.empty());
  EXPECT_EQ(of_host.front(), "parallel.mesh={ data = 2 }") << "only rows of the embedding are sent";
  EXPECT_EQ(of_gpu.front(), "parallel.mesh={ pipe = 2, data = 1 }");
  std::vector<std::string> given;
  for (const std::string& setting : of_gpu) given.insert(given.end(), {"--set", setting});
  const Ended chosen = command("plan", path("gpu.toml"), automatic),
              by_advice = command("plan", path("gpu.toml"), given);
  EXPECT_STATUS(chosen, 0);
  EXPECT_STATUS(by_advice, 0);
  EXPECT_EQ(chosen.out, by_advice.out);
}

/// What this host's process and its threads take says nothing of a GPU's memory.
TEST_F(ProfileCommand, AdviceForAGpuDoesNotDependOnThisHost) {
  const auto advised = [&](const char* threads) {
    std::vector<std::string> command{"env", std::string("OMP_NUM_THREADS=") + threads};
    const auto advise =
        weft({"advise", deck(), "--world", "2", "--machine", "h100", "--set", "run.memory_limit=1GiB"});
    command.insert(command.end(), advise.begin(), advise.end());
    const Ended ended = run(command);
    EXPECT_STATUS(ended, 0);
    return ended.out;
  };
  const std::string one = advised("1"), many = advised("64");
  EXPECT_TRUE(contains(one, "estimated to fit 1.00 GiB a rank"));
  EXPECT_EQ(one, many);
}

/// A plan for each machine ends with a step, the tokens a second that follow from it, and a share of the
/// peak of the parameters' type.
TEST_F(ProfileCommand, EveryShippedMachineIsPlannedFor) {
  const std::string keys = run(weft({"deck", "--schema", "--markdown"})).out;
  // The model is so large that MFU is more than a few tenths of a per cent, with which it is printed.
  constexpr double dim = 1024, ffn = 4096, vocab = 300, layers = 2, seq = 4096, sequences = 12, ranks = 6;
  constexpr double flops_per_token =
      6 * (layers * (4 * dim * dim + 3 * dim * ffn + 2 * dim) + dim + vocab * dim) + 12 * layers * dim * seq;
  for (const std::string& name : machine::shipped_machine_names()) {
    EXPECT_NE(keys.find("`" + name + "`"), std::string::npos) << name;
    const machine::Compute compute = machine::shipped_machine(name).value().compute;
    for (const auto& [params, peak] : {std::pair("f32", compute.peak_f32), {"bf16", compute.peak_bf16}}) {
      SCOPED_TRACE(name + " " + params);
      std::vector<std::string> arguments{"plan", deck(), "--world", "6", "--machine", name};
      for (const char* set : {"model.dim=1024", "model.heads=8", "model.kv_heads=8", "model.ffn=4096",
                              "data.seq=4096", "data.batch=2", "schedule.bucketing=none"})
        arguments.insert(arguments.end(), {"--set", set});
      arguments.insert(arguments.end(), {"--set", std::string("precision.params=") + params});
      const Ended planned = run(weft(arguments));
      EXPECT_STATUS(planned, 0);
      const double step = number_after(planned.out, "predicted step "),
                   tokens = number_after(planned.out, " s: "),
                   mfu = number_after(planned.out, "tokens/s a rank, ");
      EXPECT_NEAR(tokens * step, sequences * seq / ranks, 0.02 * sequences * seq / ranks) << planned.out;
      EXPECT_GT(mfu, 1) << planned.out;
      EXPECT_NEAR(mfu, 100 * tokens * flops_per_token / peak, 0.05 + 0.01 * mfu) << planned.out;
      EXPECT_NE(planned.out.find(std::string(" % MFU (") + params + ", "), std::string::npos) << planned.out;
    }
  }
  const Ended refused = run(weft({"plan", deck(), "--machine", "h900"}));
  EXPECT_STATUS(refused, 2);
  EXPECT_NE(refused.err.find("name a machine (host, a100, h100, "), std::string::npos) << refused.err;
}

/// By its default name alone a profile replaces one of as many ranks of the same host, and no other.
TEST_F(ProfileCommand, TheDefaultFileOfOtherRanksOrHostsStays) {
  machine::Profile profile = machine::default_profile(machine::DefaultProfile::host);
  const std::string text = machine::print_profile(profile);
  write_file(out(), text);
  const Ended refused = profile_there({});
  EXPECT_STATUS(refused, 2);
  const std::string start =
      "weft: error: machine.toml is there already, and is of host default (this one would be of ";
  const auto errors = refused.lines(start);
  ASSERT_EQ(errors.size(), 1U) << refused.err;
  EXPECT_EQ(read_file(out()), text);
  const std::size_t end = errors[0].rfind("); name a file by --out");
  ASSERT_NE(end, std::string::npos) << errors[0];
  profile.name = errors[0].substr(start.size(), end - start.size());
  EXPECT_TRUE(profile.name.starts_with("1 rank on ")) << profile.name;
  write_file(out(), machine::print_profile(profile));
  EXPECT_STATUS(profile_there({}), 0);
  EXPECT_EQ(written().name, profile.name);
  for (const std::string& there : {text, std::string("name = ")}) {
    write_file(out(), there);
    EXPECT_STATUS(profile_there({"--out", "machine.toml"}), 0);
    EXPECT_EQ(written().name, profile.name);
  }
}

/// A file that is no profile may be anything, so it stays, too.
TEST_F(ProfileCommand, ADamagedDefaultFileStaysAndTheWayOutIsTold) {
  for (const char* text : {"name = ", "name = \"x\"\nranks_per_node = -1\n", ""}) {
    SCOPED_TRACE(text);
    write_file(out(), text);
    const Ended refused = profile_there({});
    EXPECT_STATUS(refused, 2);
    const auto errors = refused.lines("weft: error: machine.toml:");
    ASSERT_EQ(errors.size(), 1U) << refused.err;
    EXPECT_TRUE(
        errors[0].ends_with("; `weft profile` replaces no such file: remove it, or name a file by --out, be "
                            "it the same to replace it"))
        << errors[0];
    EXPECT_EQ(read_file(out()), text);
  }
}

TEST_F(ProfileCommand, MistakesAreOneLine) {
  const auto refused = [&](const Ended& ended, const std::string& line) {
    EXPECT_STATUS(ended, 2);
    EXPECT_EQ(ended.lines("weft: error:").size(), 1U) << ended.err;
    EXPECT_NE(ended.err.find(line), std::string::npos) << ended.err;
  };
  refused(plan(2, path("none.toml")),
          "schedule.profile: cannot read the machine profile " + path("none.toml"));
  write_file(path("bad.toml"), "name = \"x\"\nranks_per_node = -1\n");
  refused(plan(2, path("bad.toml")), path("bad.toml") + ":2: 'ranks_per_node' is -1 (it is at least 1)");
  refused(run(weft_on(2, train("run", {"schedule.profile=" + path("bad.toml")}))),
          path("bad.toml") + ":2: 'ranks_per_node' is -1");
  refused(run(weft({"profile", "--set", "data.seq=3"})), "--set without a deck");
}

}  // namespace
}  // namespace weft::test
