// Tests memory as a contract: a run takes what it says it takes, and too little memory is refused before the
// start.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

/// A control group with a limit on memory, of version 1 or 2.
class ControlGroup {
 public:
  ControlGroup() {
    const bool first = fs::exists("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    dir_ = (first ? "/sys/fs/cgroup/memory/weft-test-" : "/sys/fs/cgroup/weft-test-") +
           std::to_string(::getpid());
    limit_ = dir_ + (first ? "/memory.limit_in_bytes" : "/memory.max");
    std::error_code error;
    fs::create_directory(dir_, error);
    if (error) why_not_ = "cannot make the control group " + dir_ + " (" + error.message() + ")";
    if (!error && !fs::exists(limit_)) why_not_ = dir_ + " does not limit memory";
  }
  ~ControlGroup() { ::rmdir(dir_.c_str()); }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  /// Why there is no such group; empty when there is one.
  const std::string& why_not() const { return why_not_; }
  bool limit(std::int64_t bytes) const {
    std::ofstream file(limit_);
    file << bytes;
    file.flush();
    return file.good();
  }
  std::vector<std::string> inside(const std::vector<std::string>& command) const {
    std::vector<std::string> all{"sh", "-c", "echo $$ > " + dir_ + "/cgroup.procs && exec \"$@\"", "sh"};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }

 private:
  std::string dir_, limit_, why_not_;
};

class MemoryContract : public Workspace {
 protected:
  /// A command whose ranks take some hundred megabytes each, nearly all of them state and arena.
  std::vector<std::string> large(const std::string& run, const std::vector<std::string>& sets = {}) const {
    std::vector<std::string> all{"run.dir=" + run_dir(run), "run.steps=2", "data.global_batch=2",
                                 "model.vocab=65536", "model.dim=256"};
    all.insert(all.end(), sets.begin(), sets.end());
    std::vector<std::string> arguments{"train", deck()};
    for (const std::string& set : all) arguments.insert(arguments.end(), {"--set", set});
    return arguments;
  }
  std::int64_t planned(const std::string& run) const {
    return metrics(run_dir(run)).back().at("planned_bytes").get<std::int64_t>();
  }
};

/// What a machine decides: how many threads a rank has, and of which instructions products are made.
struct Machine {
  int ranks;
  const char* threads;
  const char* instructions;
  /// What oneDNN allocates while a product runs, and has given back when a line is written. So resident
  /// memory may be this much less than planned.
  double given_back_mib;
};

/// Each step reads 128 sequences from all over a token file of 16 MiB, and is validated and saved. Whatever
/// of that stays resident without being planned shows here.
TEST_F(MemoryContract, ResidentMemoryIsWhatWasPlannedFromTheFirstStepOn) {
  std::string text;
  while (text.size() < (8U << 20)) text += read_file(path("text.txt"));
  write_file(path("much.txt"), text);
  const Ended tokenized = run(weft({"data", "tokenize", path("much.txt"), "--train", path("much.bin")}));
  ASSERT_EQ(tokenized.status, 0) << tokenized.err;
  for (const Machine& m :
       {Machine{1, "2", "AVX2", 16}, Machine{2, "1", "AVX2", 8}, Machine{2, "1", "ALL", 8}}) {
    const std::string name = fmt::format("{}-ranks-{}-threads-{}", m.ranks, m.threads, m.instructions);
    SCOPED_TRACE(name);
    std::vector<std::string> command{"env", fmt::format("OMP_NUM_THREADS={}", m.threads),
                                     fmt::format("ONEDNN_MAX_CPU_ISA={}", m.instructions)};
    const auto training = weft_on(
        m.ranks,
        train(name, {"run.steps=3", "data.train=" + path("much.bin"), "data.valid=" + path("much.bin"),
                     "data.seq=64", "data.batch=64", "data.global_batch=128", "data.valid_every=2",
                     "data.valid_sequences=64", "checkpoint.every=1", "checkpoint.keep=2", "model.dim=256",
                     "model.vocab=4096", "model.ffn=704"}));
    command.insert(command.end(), training.begin(), training.end());
    const Ended ended = run(command, 240);
    EXPECT_STATUS(ended, 0);
    const auto lines = metrics(run_dir(name));
    ASSERT_EQ(lines.size(), 5U);
    double most = 0;
    for (const auto& line : lines) {
      const auto rss = line.at("rss_bytes").get<double>();
      EXPECT_LE(rss, line.at("planned_bytes").get<double>()) << line;
      most = std::max(most, rss);
    }
    EXPECT_GE(most + m.given_back_mib * (1 << 20), 0.95 * static_cast<double>(planned(name)));
  }
}

/// What a run said last of its ranks, in ranks.jsonl.
nlohmann::json told_of_ranks(const std::string& run_dir) {
  std::ifstream in(run_dir + "/ranks.jsonl");
  std::string line, last;
  while (std::getline(in, line)) last = line;
  return nlohmann::json::parse(last);
}

/// The ranks of a mesh have other stages and parts, and other memory; each has what was planned for it.
TEST_F(MemoryContract, HoldsForEveryRankOfAMesh) {
  const std::array<const char*, 4> meshes{"pipe = 4", "pipe = 2, tensor = 2", "pipe = 2, context = 2",
                                          "context = 2, tensor = 2"};
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    SCOPED_TRACE(meshes[i]);
    const std::string name = fmt::format("mesh-{}", i);
    const Ended ended =
        run(weft_on(4, train(name, {fmt::format("parallel.mesh={{ {} }}", meshes[i]), "run.steps=2",
                                    "log.every=1", "checkpoint.every=0", "checkpoint.final=false",
                                    "data.seq=128", "data.batch=8", "data.global_batch=16", "model.dim=256",
                                    "model.vocab=4096", "model.ffn=704", "model.layers=4"})),
            240);
    EXPECT_STATUS(ended, 0);
    const auto told = told_of_ranks(run_dir(name));
    ASSERT_EQ(told.at("rss_bytes").size(), 4U);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const auto resident = told.at("rss_bytes")[rank].get<double>(),
                 planned = told.at("planned_bytes")[rank].get<double>();
      EXPECT_LE(resident, planned) << rank;
      // What MPI may take is planned for long messages, what libraries take for the processor that takes
      // most, and what saving takes (14 MiB here) for a run that is stopped.
      EXPECT_GE(resident + 42.0 * (1 << 20), 0.95 * planned) << rank;
    }
  }
}

/// The command with another /dev/shm, which has `mib` MiB.
std::vector<std::string> with_shared_memory(int mib, const std::vector<std::string>& command) {
  std::vector<std::string> all{
      "unshare",
      "--mount",
      "sh",
      "-c",
      "mount -t tmpfs -o size=" + std::to_string(mib) + "m tmpfs /dev/shm && exec \"$@\"",
      "sh"};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

/// Containers often have little shared memory.
TEST_F(MemoryContract, DoesWithoutSharedMemoryWhereThereIsNone) {
  if (run(with_shared_memory(16, {"true"})).status != 0) GTEST_SKIP() << "not allowed to mount";
  const Ended shared = run(weft_on(2, large("shared"))),
              apart = run(with_shared_memory(16, weft_on(2, large("apart"))));
  EXPECT_STATUS(shared, 0);
  EXPECT_STATUS(apart, 0);
  EXPECT_EQ(shared.err.find("no shared memory"), std::string::npos) << shared.err;
  EXPECT_NE(apart.err.find("a host gives its ranks no shared memory"), std::string::npos) << apart.err;
  const auto here = metrics(run_dir("shared")), there = metrics(run_dir("apart"));
  EXPECT_LT(here.back().at("sent_bytes"), 10000);
  EXPECT_GT(there.back().at("sent_bytes"), 1000000);
  EXPECT_EQ(here.back().at("loss"), there.back().at("loss"));
}

/// What computes with a checkpoint has a plan that knows of teams, as training has.
TEST_F(MemoryContract, EvaluatesWithoutSharedMemory) {
  if (run(with_shared_memory(4, {"true"})).status != 0) GTEST_SKIP() << "not allowed to mount";
  EXPECT_STATUS(run(weft_on(2, train("run", {"run.steps=1", "optimizer.warmup=0"}))), 0);
  const std::vector<std::string> evaluate =
      weft_on(2, {"eval", "--checkpoint", checkpoints("run"), "--data", path("valid.bin")});
  const Ended shared = run(evaluate), apart = run(with_shared_memory(4, evaluate));
  EXPECT_STATUS(shared, 0);
  EXPECT_STATUS(apart, 0);
  EXPECT_EQ(shared.err.find("no shared memory"), std::string::npos) << shared.err;
  EXPECT_NE(apart.err.find("a host gives its ranks no shared memory"), std::string::npos) << apart.err;
  const auto result = [](const Ended& ended) { return ended.out.substr(0, ended.out.find(" tokens in ")); };
  EXPECT_EQ(result(apart), result(shared));
}

/// On a mesh the tensor axis gives up its memory first, and then the data axis. The bits stay.
TEST_F(MemoryContract, OnAMeshOneTeamIsGivenUpAtATime) {
  if (run(with_shared_memory(16, {"true"})).status != 0) GTEST_SKIP() << "not allowed to mount";
  const std::string of_tensor = "those of a tensor axis send each other messages",
                    of_data = "each gathers parameters of its own";
  std::vector<std::vector<std::string>> curves;
  for (const auto& [mib, without_tensor, without_data] :
       {std::tuple(400, false, false), {48, true, false}, {4, true, true}}) {
    SCOPED_TRACE(mib);
    const std::string name = std::to_string(mib);
    const Ended ended = run(with_shared_memory(
        mib, weft_on(4, train(name, {"parallel.mesh={ data = 2, tensor = 2 }", "run.steps=2", "model.dim=256",
                                     "model.ffn=512", "model.vocab=1024", "data.seq=512", "data.batch=4",
                                     "data.global_batch=24", "debug.hash_every=1"}))));
    EXPECT_STATUS(ended, 0);
    EXPECT_EQ(ended.err.find(of_tensor) != std::string::npos, without_tensor) << ended.err;
    EXPECT_EQ(ended.err.find(of_data) != std::string::npos, without_data) << ended.err;
    curves.push_back(curve(run_dir(name)));
  }
  EXPECT_EQ(curves[1], curves[0]);
  EXPECT_EQ(curves[2], curves[0]);
}

/// There is room for one of two jobs that begin at once, and neither may die of it: pages that nobody has
/// reserved would be a SIGBUS. While both reserve, each may find too few pages left.
TEST_F(MemoryContract, TwoJobsShareWhatSharedMemoryThereIs) {
  if (run(with_shared_memory(16, {"true"})).status != 0) GTEST_SKIP() << "not allowed to mount";
  const std::vector<std::string> job = weft_on(2, large("one"));
  std::vector<std::string> both{"sh", "-c",
                                R"sh("$@" & first=$!; "$@" --set run.dir="$0"; second=$?; wait $first &&
                                   [ $second = 0 ] && [ -z "$(find /dev/shm -name 'weft-*')" ])sh",
                                run_dir("two")};
  both.insert(both.end(), job.begin(), job.end());
  EXPECT_STATUS(run(with_shared_memory(500, both), 120), 0);
  const auto sent = [&](const char* name) {
    return metrics(run_dir(name)).back().at("sent_bytes").get<std::int64_t>();
  };
  EXPECT_GT(std::max(sent("one"), sent("two")), 1000000) << "both had room";
  const auto loss = [&](const char* name) { return metrics(run_dir(name)).back().at("loss"); };
  EXPECT_EQ(loss("one"), loss("two"));
}

/// What was planned for all ranks of a run, each with its own stage and parts.
double planned_for_all(const std::string& run_dir) {
  const auto told = told_of_ranks(run_dir);
  double sum = 0;
  for (const auto& bytes : told.at("planned_bytes")) sum += bytes.get<double>();
  return sum;
}

TEST_F(MemoryContract, FinishesInFivePercentMoreAndIsRefusedInFivePercentLess) {
  const ControlGroup group;
  if (!group.why_not().empty()) GTEST_SKIP() << group.why_not();
  for (const char* axis : {"data", "tensor", "pipe"}) {
    SCOPED_TRACE(axis);
    const std::vector<std::string> sets{fmt::format("parallel.mesh={{ {} = 2 }}", axis), "log.every=1"};
    const auto job = [&](const char* name) { return weft_on(2, large(std::string(axis) + name, sets)); };
    const auto dir = [&](const char* name) { return run_dir(std::string(axis) + name); };
    const Ended free = run(job("-free"));
    ASSERT_EQ(free.status, 0) << free.err;
    const double planned = planned_for_all(dir("-free"));
    ASSERT_TRUE(group.limit(static_cast<std::int64_t>(1.05 * planned)));
    EXPECT_STATUS(run(group.inside(job("-enough"))), 0);
    EXPECT_EQ(steps(dir("-enough")), steps_to(2));
    ASSERT_TRUE(group.limit(static_cast<std::int64_t>(0.95 * planned)));
    const Ended refused = run(group.inside(job("-less")));
    EXPECT_STATUS(refused, 2);
    ASSERT_EQ(refused.lines("weft: error:").size(), 1U) << refused.err;
    EXPECT_NE(refused.lines("weft: error:")[0].find("not enough memory: the run needs"), std::string::npos);
    EXPECT_FALSE(fs::exists(dir("-less")));
  }
}

TEST_F(MemoryContract, MoreThanTheLimitIsRefusedWithWhatWouldFit) {
  const std::vector<std::string> activations{
      "model.layers=12", "model.vocab=300", "data.seq=512",
      "schedule.bucketing=none"};  // an automatic plan would make itself fit
  auto sets = activations;
  sets.emplace_back("run.memory_limit=1TiB");
  const Ended free = run(weft_on(2, large("free", sets)));
  ASSERT_EQ(free.status, 0) << free.err;
  sets.back() = "run.memory_limit=" + std::to_string(planned("free") * 9 / 10);
  const Ended refused = run(weft_on(2, large("less", sets)));
  EXPECT_STATUS(refused, 2);
  const auto errors = refused.lines("weft: error:");
  ASSERT_EQ(errors.size(), 1U) << refused.err;
  for (const char* text :
       {"run.memory_limit: the run needs ", "the limit is ", "schedule.recompute = \"full\" would take"})
    EXPECT_NE(errors[0].find(text), std::string::npos) << errors[0];
  EXPECT_FALSE(fs::exists(run_dir("less")));
}

/// What stands after `label` in a line, a number of MiB or GiB, in GiB.
double gib_after(const std::string& line, const std::string& label) {
  const std::size_t at = line.find(label);
  if (at == std::string::npos) {
    ADD_FAILURE() << label << " is not in " << line;
    return 0;
  }
  std::istringstream words(line.substr(at + label.size()));
  double number = 0;
  std::string unit;
  words >> number >> unit;
  return unit.starts_with("MiB") ? number / 1024 : number;
}

/// The second stage has eleven layers of twelve, and so nearly all of what the run needs.
TEST_F(MemoryContract, WhatWouldFitIsWhatTheFullestStageNeeds) {
  const auto job = [&](const char* name, const std::string& recompute, const std::string& limit) {
    return weft_on(2,
                   large(name, {"parallel.mesh={ pipe = 2 }", "pipeline.layers=[1, 11]", "model.layers=12",
                                "model.vocab=300", "data.seq=1024", "schedule.bucketing=none", "log.every=1",
                                "schedule.recompute=" + recompute, "run.memory_limit=" + limit}));
  };
  const auto planned_by_stage = [&](const char* name) {
    const auto told = told_of_ranks(run_dir(name)).at("planned_bytes");
    return std::array{told.at(0).get<double>(), told.at(1).get<double>()};
  };
  for (const char* recompute : {"none", "full"}) {
    const Ended free = run(job(recompute, recompute, "1TiB"));
    ASSERT_EQ(free.status, 0) << free.err;
  }
  const auto whole = planned_by_stage("none"), less = planned_by_stage("full");
  ASSERT_GT(less[1], less[0] + (32 << 20)) << "the stages are too much alike to tell them apart";
  ASSERT_GT(0.95 * whole[1], less[1]) << "recomputing saves too little";
  const auto limit = static_cast<std::int64_t>((whole[1] + less[1]) / 2);
  const Ended refused = run(job("refused", "none", std::to_string(limit)));
  EXPECT_STATUS(refused, 2);
  const auto errors = refused.lines("weft: error:");
  ASSERT_EQ(errors.size(), 1U) << refused.err;
  const double gib = 1 << 30;
  EXPECT_NEAR(gib_after(errors[0], "the run needs "), whole[1] / gib, 0.02) << errors[0];
  EXPECT_NEAR(gib_after(errors[0], "schedule.recompute = \"full\" would take "), less[1] / gib, 0.02)
      << errors[0];
}

}  // namespace
}  // namespace weft::test
