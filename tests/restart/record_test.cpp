// Tests what a run writes for scripts and viewers: metrics.jsonl and trace.json.
#include <filesystem>
#include <regex>
#include <set>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

using nlohmann::json;

std::set<std::string> fields(const json& line) {
  std::set<std::string> names;
  for (const auto& [name, value] : line.items()) names.insert(name);
  return names;
}

class Record : public Workspace {};

TEST_F(Record, MetricsHaveTheFieldsOfTheInterface) {
  const std::set<std::string> interface {
    "kind", "step", "loss", "grad_norm", "lr", "tokens", "tokens_per_s", "step_s", "compute_s", "comm_s",
        "exposed_comm_s", "exposed_gather_s", "exposed_reduce_s", "gather_s", "reduce_s", "sent_bytes", "mfu",
        "arena_peak_bytes", "persistent_bytes", "rss_bytes", "planned_bytes"
  };
  EXPECT_STATUS(run(weft_on(2, train("run", {"run.steps=6", "debug.hash_every=3", "log.every=4",
                                             "log.peak_tflops=1.0"}))),
                0);
  EXPECT_EQ(steps(run_dir("run")), steps_to(6)) << "log.every is not for the metrics";
  int valid = 0;
  for (const auto& line : metrics(run_dir("run"))) {
    SCOPED_TRACE(line.dump());
    auto expected = interface;
    const bool is_valid = line.at("kind") == "valid";
    valid += is_valid;
    if (is_valid) expected.insert("bits_per_byte");
    if (!is_valid && line.at("step").get<int>() % 3 == 0) expected.insert("state_hash");
    EXPECT_EQ(fields(line), expected);
    EXPECT_EQ(line.at("kind"), is_valid ? "valid" : "train");
    for (const char* unknown :
         {"grad_norm", "lr", "compute_s", "comm_s", "exposed_comm_s", "exposed_gather_s", "exposed_reduce_s",
          "gather_s", "reduce_s", "sent_bytes", "mfu"})
      EXPECT_EQ(line.at(unknown).is_null(), is_valid) << unknown;
    for (const char* positive :
         {"loss", "tokens", "tokens_per_s", "step_s", "arena_peak_bytes", "persistent_bytes", "rss_bytes"})
      EXPECT_GT(line.at(positive), 0) << positive;
    if (is_valid) continue;
    EXPECT_LE(line.at("tokens"), 12 * 24);
    EXPECT_GE(line.at("step_s").get<double>(), line.at("exposed_comm_s").get<double>());
    EXPECT_GE(line.at("step_s").get<double>(), line.at("exposed_gather_s").get<double>());
    EXPECT_GE(line.at("step_s").get<double>(), line.at("exposed_reduce_s").get<double>());
  }
  EXPECT_EQ(valid, 2);  // at step 5, and at the end
}

/// The lines of the log behind the last progress line, from the summary's head on.
std::string summary_of(const std::string& run_dir) {
  const std::string log = read_file(run_dir + "/log.txt");
  const auto at = log.rfind("median of ");
  return at == std::string::npos ? "no summary in\n" + log : log.substr(at);
}

TEST_F(Record, ARunEndsWithItsSummary) {
  const std::vector<std::string> of_lanes{
      "compute-only step", "stolen by communication", "gather lane",    "reduce lane",
      "exposed gathers",   "exposed reductions",      "sent by a rank", "rate while under way"};
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const std::string name = "run" + std::to_string(ranks);
    const Ended ended = run(weft_on(ranks, train(name, {"run.steps=5"})));
    EXPECT_STATUS(ended, 0);
    const std::string summary = summary_of(run_dir(name));
    EXPECT_TRUE(summary.starts_with("median of 4 steps")) << summary;
    for (const char* part : {"  step ", "compute lane, busy", "idle and other", "memory of a rank",
                             "no seconds are planned without a profile of this machine"})
      EXPECT_NE(summary.find(part), std::string::npos) << part << " is not in\n" << summary;
    for (const auto& part : of_lanes)
      EXPECT_EQ(summary.find(part) != std::string::npos, ranks == 2) << part << "\n" << summary;
    EXPECT_NE(ended.err.find("median of 4 steps"), std::string::npos) << "the terminal shows it, too";
  }
}

TEST_F(Record, ARunThatIsOutOfTimeHasASummary) {
  EXPECT_STATUS(run(weft_on(1, train("run", {"run.steps=1000000", "run.walltime=3s"}))), 75);
  EXPECT_TRUE(summary_of(run_dir("run")).starts_with("median of "));
}

/// The rows of a trace, by rank and lane: what ran, and where it stood in the model.
struct Rows {
  std::map<std::pair<int, std::string>, std::multiset<std::string>> spans;
  std::set<std::string> paths;
  std::map<std::string, std::map<int, int>> buckets;  ///< rank 0's: the number of members, by lane and bucket
  double sent = 0;                                    ///< by rank 0
};

Rows rows_of(const json& trace, double step_us) {
  std::map<std::pair<int, int>, std::string> names;
  Rows rows;
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("name") == "thread_name")
      names[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const std::string& row = names.at({event.at("pid"), event.at("tid")});
    const json& args = event.at("args");
    rows.spans[{event.at("pid"), row}].insert(event.at("name"));
    EXPECT_GE(event.at("ts"), 0) << event;
    EXPECT_GE(event.at("dur"), 0) << event;
    EXPECT_EQ(args.at("step"), 3) << event;
    EXPECT_EQ(args.contains("bytes"), row != "host") << event;
    const bool multiplies =
        std::regex_search(event.at("name").get<std::string>(), std::regex("matmul|attention|linear"));
    EXPECT_EQ(args.contains("flops"), multiplies) << event;
    if (event.at("cat") == "comm" && event.at("pid") == 0) {
      ++rows.buckets[row][args.at("bucket").get<int>()];
      rows.sent += args.at("bytes").get<double>();
      EXPECT_FALSE(args.at("value").get<std::string>().empty()) << event;
    }
    if (row == "host") continue;  // the host's row is not part of the step
    rows.paths.insert(args.value("path", "none"));
    EXPECT_TRUE((std::set<std::string>{"forward", "backward", "update"}).contains(args.at("phase"))) << event;
    EXPECT_LE(event.at("ts").get<double>() + event.at("dur").get<double>(), step_us) << event;
  }
  return rows;
}

/// A validation between steps gathers whole tables, and tells nobody its tokens.
TEST_F(Record, RowsOfTheEmbeddingAreSentBesideValidations) {
  std::vector<std::vector<json>> losses;
  std::vector<std::int64_t> sent;
  for (const char* disabled : {"[\"share\"]", "[\"share\", \"rows\"]"}) {
    const std::string name = "run" + std::to_string(losses.size());
    EXPECT_STATUS(run(weft_on(2, train(name, {"run.steps=6", "debug.hash_every=0", "data.valid_every=2",
                                              std::string("schedule.disable=") + disabled}))),
                  0);
    losses.emplace_back();
    for (const json& line : metrics(run_dir(name)))
      if (line.contains("loss")) losses.back().push_back(line.at("loss"));
    sent.push_back(metrics(run_dir(name)).at(0).at("sent_bytes"));
  }
  EXPECT_GE(losses[0].size(), 6U + 3U);
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_LT(sent[0], sent[1]);
}

TEST_F(Record, TraceHasARowALaneAndASpanAnInstruction) {
  EXPECT_STATUS(run(weft_on(2, train("run", {"run.steps=4", "log.trace_step=3", "data.valid_every=3",
                                             "checkpoint.every=3"}))),
                0);
  const json step = metrics(run_dir("run")).at(2);
  const double step_us = 1e6 * step.at("step_s").get<double>();
  const Rows rows = rows_of(json::parse(read_file(run_dir("run") + "/trace.json")), step_us);
  ASSERT_EQ(rows.spans.size(), 8U);
  EXPECT_EQ(rows.sent, step.at("sent_bytes"));
  for (const int rank : {0, 1}) {
    SCOPED_TRACE(rank);
    EXPECT_EQ(rows.spans.at({rank, "host"}),
              (std::multiset<std::string>{"inputs", "validation", "checkpoint"}));
    const auto& compute = rows.spans.at({rank, "compute"});
    EXPECT_EQ(compute.count("attention"), 2U * 6);  // layers x rounds
    EXPECT_EQ(compute.count("attention_grad"), 2U * 6);
    EXPECT_EQ(compute.count("adamw"), 6U);                               // one for each unit
    EXPECT_EQ(rows.spans.at({rank, "gather"}).count("all_gather"), 6U);  // in place, so once a step
    EXPECT_EQ(rows.spans.at({rank, "reduce"}).count("reduce_scatter"), 36U);
  }
  for (const char* path : {"embed", "layers.0.attn", "layers.0.ffn", "layers.1.attn", "layers.1.ffn", "head"})
    EXPECT_TRUE(rows.paths.contains(path)) << path;
  EXPECT_FALSE(rows.paths.contains("none")) << "a span without a module path";
}

TEST_F(Record, TraceDrawsThePipesSchedule) {
  EXPECT_STATUS(
      run(weft_on(2, train("run", {"run.steps=3", "log.trace_step=3", "parallel.mesh={ pipe = 2 }",
                                   "pipeline.schedule=\"zb_h1\"", "data.batch=1", "data.global_batch=3"}))),
      0);
  const json trace = json::parse(read_file(run_dir("run") + "/trace.json"));
  std::map<int, std::string> drawn;  // by rank
  for (const auto& event : trace.at("traceEvents"))
    if (event.value("cat", "") == "schedule")
      drawn[event.at("pid")] += event.at("name").get<std::string>() + " ";
  // The last stage puts its weight gradients off, too, and has nothing else to do before the first of them.
  EXPECT_EQ(drawn[0], "F0 F1 B0 F2 B1 B2 ");
  EXPECT_EQ(drawn[1], "F0 B0 F1 B1 W0 F2 B2 W1 W2 ");
}

TEST_F(Record, TraceTellsWhichCollectivesAreABucket) {
  EXPECT_STATUS(
      run(weft_on(2, train("run", {"run.steps=3", "log.trace_step=3", "schedule.bucketing=\"manual\"",
                                   "schedule.buckets=[\"layers.*\"]"}))),
      0);
  const Rows rows = rows_of(json::parse(read_file(run_dir("run") + "/trace.json")), 1e9);
  int blocks = 0;
  for (const auto& [number, members] : rows.buckets.at("reduce")) blocks += members == 2;
  EXPECT_EQ(blocks, 2 * 6) << "attention and feed-forward of a layer, in each round";
  EXPECT_EQ(rows.spans.at({0, "reduce"}).count("reduce_scatter"), 36U);
}

TEST_F(Record, NoTraceUnlessAsked) {
  EXPECT_STATUS(run(weft_on(2, train("run", {"run.steps=2"}))), 0);
  EXPECT_FALSE(std::filesystem::exists(run_dir("run") + "/trace.json"));
  EXPECT_TRUE(std::filesystem::exists(run_dir("run") + "/deck.toml"));
}

}  // namespace
}  // namespace weft::test
