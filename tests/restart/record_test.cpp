// Tests what a run writes for scripts and viewers: metrics.jsonl and trace.json.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <numbers>
#include <regex>
#include <set>
#include <sstream>

#include "base/text.hpp"
#include "machine/profile.hpp"
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
  const Ended ended = run(
      weft_on(2, train("run", {"run.steps=6", "debug.hash_every=3", "log.every=4", "log.peak_tflops=1.0"})));
  EXPECT_STATUS(ended, 0);
  EXPECT_EQ(steps(run_dir("run")), steps_to(6)) << "log.every is not for the metrics";
  std::smatch amount;
  ASSERT_TRUE(std::regex_search(ended.err, amount, std::regex("in 1 file, ([0-9]+) sequences of 24; a step")))
      << ended.err;
  int valid = 0;
  for (const auto& line : metrics(run_dir("run"))) {
    SCOPED_TRACE(line.dump());
    auto expected = interface;
    const bool is_valid = line.at("kind") == "valid";
    valid += is_valid;
    expected.insert(is_valid ? "bits_per_byte" : "epoch");
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
    EXPECT_NEAR(line.at("epoch").get<double>() * std::stod(amount[1]), line.at("step").get<double>() * 12,
                1e-5);
    EXPECT_GE(line.at("step_s").get<double>(), line.at("exposed_comm_s").get<double>());
    EXPECT_GE(line.at("step_s").get<double>(), line.at("exposed_gather_s").get<double>());
    EXPECT_GE(line.at("step_s").get<double>(), line.at("exposed_reduce_s").get<double>());
  }
  EXPECT_EQ(valid, 2);  // at step 5, and at the end
}

/// How many of the first `count` targets of a token file are bytes of text. The byte tokenizer's other token
/// ends a document.
std::int64_t bytes_of_targets(const std::string& token_file, std::int64_t count) {
  const std::string content = read_file(token_file);
  std::int64_t bytes = 0;
  for (std::int64_t i = 1; i <= count; ++i) {  // the first token is no target
    std::uint16_t token = 0;
    const auto at = static_cast<std::size_t>(256 + 2 * i);
    if (at + sizeof token > content.size()) return -1;
    std::memcpy(&token, content.data() + at, sizeof token);
    bytes += token < 256 ? 1 : 0;
  }
  return bytes;
}

/// A line's numbers against the deck and each other, by the formulas that docs/running.md and docs/data.md
/// give. Files have nine digits of each.
TEST_F(Record, NumbersFollowFromOneAnother) {
  EXPECT_STATUS(
      run(weft_on(2, train("run", {"run.steps=6", "log.peak_tflops=1.0", "optimizer.decay=\"cosine\""}))), 0);
  constexpr double digits = 1e-7;
  // All parameters but the table's, and the scores of two layers with four heads of sixteen.
  constexpr double flops_per_token = 6.0 * (130880 - 300 * 64) + 12.0 * 2 * 4 * 16 * 24;
  std::int64_t tokens = 0;
  int trained = 0, validated = 0;
  for (const json& line : metrics(run_dir("run"))) {
    SCOPED_TRACE(line.dump());
    const auto of_line = line.at("tokens").get<std::int64_t>();
    const auto number = [&](const char* key) { return line.at(key).get<double>(); };
    EXPECT_NEAR(number("tokens_per_s") * number("step_s") / number("tokens"), 1, digits);
    if (line.at("kind") == "valid") {
      ++validated;
      const std::int64_t bytes = bytes_of_targets(path("valid.bin"), of_line);
      EXPECT_GT(bytes, 0);
      EXPECT_LT(bytes, of_line) << "the ends of documents are no text";
      EXPECT_NEAR(number("bits_per_byte") * static_cast<double>(bytes) * std::numbers::ln2 /
                      (number("loss") * number("tokens")),
                  1, digits);
      continue;
    }
    ++trained;
    tokens += of_line;
    const double done = number("step") - 1, share = (done - 2) / 4;  // of what follows two steps of warm-up
    const double expected =
        done < 2 ? 1e-2 * (done + 1) / 2 : 1e-2 * (1 + std::cos(std::numbers::pi * share)) / 2;
    EXPECT_NEAR(number("lr") / expected, 1, digits);
    EXPECT_NEAR(number("mfu") * 2e12 / (number("tokens_per_s") * flops_per_token), 1, digits);
  }
  EXPECT_EQ(trained, 6);
  EXPECT_EQ(validated, 2);
  const json manifest = json::parse(read_file(checkpoints("run") + "/latest/manifest.json"));
  EXPECT_EQ(manifest.at("run").at("tokens"), tokens);
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

/// What stands behind the name in a row of the summary: numbers with their units, and the ratio.
std::vector<std::string> row_of(const std::string& summary, const std::string& name) {
  const auto at = summary.find("  " + name + " ");
  if (at == std::string::npos) {
    ADD_FAILURE() << name << " is not in\n" << summary;
    return std::vector<std::string>(5);
  }
  const auto begin = at + 2 + name.size();
  std::istringstream words(summary.substr(begin, summary.find('\n', begin) - begin));
  return {std::istream_iterator<std::string>(words), {}};
}

double planned_seconds(const std::string& summary, const std::string& name) {
  const std::vector<std::string> row = row_of(summary, name);
  return std::stod(row.at(2)) * (row.at(3) == "ms" ? 1e-3 : 1);
}

/// What `regex` finds in the text as a number: the largest.
double largest(const std::string& text, const char* regex) {
  const std::regex pattern(regex);
  double most = -1;
  for (std::sregex_iterator m(text.begin(), text.end(), pattern), end; m != end; ++m)
    most = std::max(most, std::stod((*m)[1]));
  return most;
}

/// The last of three stages has most layers, the middle one sends most, and the first has neither. Each
/// planned number is the largest of all ranks, as a measured one is. The seconds are those of `weft plan`,
/// which knows what a stage waits for the others.
TEST_F(Record, TheSummaryOfAPipeIsThatOfAllStages) {
  write_file(path("machine.toml"),
             machine::print_profile(machine::default_profile(machine::DefaultProfile::host)));
  const std::vector<std::string> sets{"schedule.profile=" + path("machine.toml"),
                                      "parallel.mesh={ pipe = 3 }", "pipeline.layers=[1, 1, 4]",
                                      "model.layers=6", "model.ffn=2048"};
  std::vector<std::string> of_run = sets;
  of_run.insert(of_run.end(), {"run.steps=3", "debug.hash_every=0", "log.every=1"});
  EXPECT_STATUS(run(weft_on(3, train("run", of_run))), 0);
  const std::string summary = summary_of(run_dir("run"));

  const auto planned = metrics(run_dir("run")).front().at("planned_bytes").get<std::int64_t>();
  const std::string ranks = read_file(run_dir("run") + "/ranks.jsonl");
  EXPECT_LT(json::parse(ranks.substr(0, ranks.find('\n'))).at("planned_bytes").at(0), planned);
  const std::vector<std::string> memory = row_of(summary, "memory of a rank: resident, planned");
  EXPECT_EQ(memory.at(2) + " " + memory.at(3), bytes_text(planned));
  EXPECT_NEAR(std::stod(row_of(summary, "sent by a rank").back()), 1, 0.02);

  double step = 0, waits = 0;
  for (const char* place : {"0", "1", "2"}) {
    std::vector<std::string> plan{"plan", deck(), "--world", "3", "--pipe-rank", place};
    for (const std::string& set : sets) plan.insert(plan.end(), {"--set", set});
    const Ended ended = run(weft(plan));
    EXPECT_STATUS(ended, 0);
    step = std::max(step, largest(ended.out, "predicted step ([0-9.]+) s:"));
    waits =
        largest(ended.out, "kernels and messages take ([0-9.]+) s") / 100 * largest(ended.out, " ([0-9.]+)%");
  }
  EXPECT_NEAR(planned_seconds(summary, "step") / step, 1, 1e-3);
  EXPECT_NEAR(planned_seconds(summary, "waits for other stages") / waits, 1, 1e-2);
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

/// Equal numbers of ranks on other axes are other runs.
TEST_F(Record, TheFirstLineNamesTheMesh) {
  for (const std::string axis : {"tensor", "pipe", "context", "replica"}) {
    const Ended ended = run(weft_on(
        2, train(axis, {"run.steps=2", "model.vocab=260", "parallel.mesh={ " + axis + " = 2, data = 1 }"})));
    EXPECT_STATUS(ended, 0);
    EXPECT_NE(ended.err.find(" parameters, fsdp on 2 ranks (mesh " + axis + "=2), plan "), std::string::npos)
        << ended.err;
  }
}

TEST_F(Record, NoTraceUnlessAsked) {
  const Ended ended = run(weft_on(2, train("run", {"run.steps=2"})));
  EXPECT_STATUS(ended, 0);
  EXPECT_NE(ended.err.find(" parameters, fsdp on 2 ranks, plan "), std::string::npos) << ended.err;
  EXPECT_FALSE(std::filesystem::exists(run_dir("run") + "/trace.json"));
  EXPECT_TRUE(std::filesystem::exists(run_dir("run") + "/deck.toml"));
}

}  // namespace
}  // namespace weft::test
