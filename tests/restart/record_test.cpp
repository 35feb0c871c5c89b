// What a run writes for scripts and viewers: metrics.jsonl and trace.json.
#include <filesystem>
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
        "exposed_comm_s", "mfu", "arena_peak_bytes", "persistent_bytes", "rss_bytes", "planned_bytes"
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
    for (const char* unknown : {"grad_norm", "lr", "compute_s", "comm_s", "exposed_comm_s", "mfu"})
      EXPECT_EQ(line.at(unknown).is_null(), is_valid) << unknown;
    for (const char* positive :
         {"loss", "tokens", "tokens_per_s", "step_s", "arena_peak_bytes", "persistent_bytes", "rss_bytes"})
      EXPECT_GT(line.at(positive), 0) << positive;
    if (is_valid) continue;
    EXPECT_LE(line.at("tokens"), 12 * 24);
    EXPECT_GE(line.at("step_s").get<double>(), line.at("exposed_comm_s").get<double>());
  }
  EXPECT_EQ(valid, 2);  // at step 5, and at the end
}

/// By rank and lane: what ran, and where it stood in the model.
struct Rows {
  std::map<std::pair<int, std::string>, std::multiset<std::string>> spans;
  std::set<std::string> paths;
};

Rows rows_of(const json& trace, double step_us) {
  std::map<std::pair<int, int>, std::string> names;
  Rows rows;
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("name") == "thread_name")
      names[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    rows.spans[{event.at("pid"), names.at({event.at("pid"), event.at("tid")})}].insert(event.at("name"));
    rows.paths.insert(event.at("args").value("path", "none"));
    EXPECT_GE(event.at("ts"), 0) << event;
    EXPECT_GE(event.at("dur"), 0) << event;
    EXPECT_LE(event.at("ts").get<double>() + event.at("dur").get<double>(), step_us) << event;
  }
  return rows;
}

TEST_F(Record, TraceHasARowALaneAndASpanAnInstruction) {
  EXPECT_STATUS(run(weft_on(2, train("run", {"run.steps=4", "log.trace_step=3"}))), 0);
  const double step_us = 1e6 * metrics(run_dir("run")).at(2).at("step_s").get<double>();
  const Rows rows = rows_of(json::parse(read_file(run_dir("run") + "/trace.json")), step_us);
  ASSERT_EQ(rows.spans.size(), 6U);
  for (const int rank : {0, 1}) {
    SCOPED_TRACE(rank);
    const auto& compute = rows.spans.at({rank, "compute"});
    EXPECT_EQ(compute.count("attention"), 2U * 6);  // layers x rounds
    EXPECT_EQ(compute.count("attention_grad"), 2U * 6);
    EXPECT_EQ(compute.count("adamw"), 6U);                                     // units
    EXPECT_EQ(rows.spans.at({rank, "gather"}).count("all_gather"), 36U + 24);  // as `weft plan` says
    EXPECT_EQ(rows.spans.at({rank, "reduce"}).count("reduce_scatter"), 36U);
  }
  for (const char* path : {"embed", "layers.0.attn", "layers.0.ffn", "layers.1.attn", "layers.1.ffn", "head"})
    EXPECT_TRUE(rows.paths.contains(path)) << path;
  EXPECT_FALSE(rows.paths.contains("none")) << "a span without a module path";
}

TEST_F(Record, NoTraceUnlessAsked) {
  EXPECT_STATUS(run(weft_on(2, train("run", {"run.steps=2"}))), 0);
  EXPECT_FALSE(std::filesystem::exists(run_dir("run") + "/trace.json"));
  EXPECT_TRUE(std::filesystem::exists(run_dir("run") + "/deck.toml"));
}

}  // namespace
}  // namespace weft::test
