#include "exec/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "comm/host/fake.hpp"
#include "support/temporary_directory.hpp"

namespace weft::exec {
namespace {

using nlohmann::json;

json parsed(const Trace& trace, int rank = 0) {
  return json::parse("[" + trace.events(rank, "node1") + "]");
}

std::vector<json> spans_of(const json& events) {
  std::vector<json> spans;
  for (const auto& event : events)
    if (event.at("ph") == "X") spans.push_back(event);
  return spans;
}

TEST(Trace, ARowALane) {
  PerLane<std::size_t> spans{4, 4, 4, 4};
  const Trace trace(spans, {"data"});
  std::map<int, std::string> rows;
  for (const auto& event : parsed(trace, 3)) {
    EXPECT_EQ(event.at("pid"), 3);
    if (event.at("name") == "thread_name") rows[event.at("tid")] = event.at("args").at("name");
    if (event.at("name") == "process_name") {
      EXPECT_EQ(event.at("args").at("name"), "rank 3 (node1)");
    }
  }
  EXPECT_EQ(rows, (std::map<int, std::string>{
                      {0, "compute"}, {1, "gather"}, {2, "reduce"}, {3, "replica"}, {lane_count, "data"}}));
}

TEST(Trace, SpansKeepNanoseconds) {
  Trace trace(4);
  trace.set_origin(1'000'000);
  trace.record(Lane::gather, {.name = "all_gather",
                              .category = "comm",
                              .path = "layers.3.attn",
                              .phase = "forward",
                              .value = "layers.3.attn.full",
                              .start_ns = 1'002'003,
                              .end_ns = 1'005'004,
                              .bytes = 5'000'000'000,
                              .bucket = 7,
                              .microbatch = 0,
                              .chunk = 1});
  trace.record(Lane::gather, {.name = "early", .start_ns = 998'999, .end_ns = 999'000});
  const auto spans = spans_of(parsed(trace));
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0],
            json::parse(R"({"ph": "X", "name": "all_gather", "cat": "comm", "pid": 0, "tid": 1, "ts": 2.003,
    "dur": 3.001, "args": {"path": "layers.3.attn", "phase": "forward", "value": "layers.3.attn.full",
             "bytes": 5000000000, "bucket": 7, "microbatch": 0, "chunk": 1}})"));
  EXPECT_EQ(spans[1].at("ts"), -1.001);
  EXPECT_EQ(spans[1].at("dur"), 0.001);
  EXPECT_TRUE(spans[1].at("args").empty());
}

/// Two stages a rank, whose weight gradients are put off.
TEST(Trace, ARowOfAPipesActions) {
  Trace trace(16, {"host"});
  std::int64_t now = 0;
  const auto kernel = [&](const char* category, std::int64_t microbatch, std::int64_t chunk) {
    trace.record(Lane::compute, {.name = "matmul",
                                 .category = category,
                                 .start_ns = now,
                                 .end_ns = now + 800,
                                 .microbatch = microbatch,
                                 .chunk = chunk});
    now += 1000;
  };
  kernel("forward", 0, 0);
  kernel("forward", 0, 0);
  kernel("forward", 0, 1);
  kernel("backward", 0, 1);
  kernel("forward", 1, 0);
  kernel("backward", 0, 1);
  trace.record(Lane::compute, {.name = "adamw", .category = "update"});
  std::string drawn;
  for (const auto& event : parsed(trace)) {
    if (event.at("name") == "thread_name" && event.at("args").at("name") == "schedule") {
      EXPECT_EQ(event.at("tid"), lane_count + 1);
    }
    if (event.value("cat", "") != "schedule") continue;
    EXPECT_EQ(event.at("tid"), lane_count + 1);
    drawn += event.at("name").get<std::string>() + " " + event.at("ts").dump() + "+" +
             event.at("dur").dump() + ", ";
  }
  EXPECT_EQ(drawn, "F0 0.0+1.8, F0b 2.0+0.8, B0b 3.0+0.8, F1 4.0+0.8, W0b 5.0+0.8, ");
}

TEST(Trace, AllSpansHaveItsStep) {
  Trace trace(2, {"host"});
  trace.set_step(12);
  trace.record(Lane::compute, {.name = "matmul"});
  trace.record(TraceRow(lane_count), {.name = "inputs"});
  const auto spans = spans_of(parsed(trace));
  ASSERT_EQ(spans.size(), 2u);
  for (const auto& span : spans) EXPECT_EQ(span.at("args").at("step"), 12);
  EXPECT_EQ(spans[1].at("tid"), lane_count);
}

TEST(Trace, AnyNameIsValidJson) {
  const std::string name = "a\"b\\c\n\t\x01/é";
  Trace trace(1);
  trace.record(Lane::compute, {.name = name, .category = name, .path = name});
  const auto span = spans_of(parsed(trace)).at(0);
  EXPECT_EQ(span.at("name"), name);
  EXPECT_EQ(span.at("args").at("path"), name);
}

TEST(Trace, AFullRowDropsAndSaysSo) {
  Trace trace(2);
  for (int i = 0; i < 5; ++i) trace.record(Lane::reduce, {.name = "r", .start_ns = i, .end_ns = i});
  EXPECT_EQ(trace.dropped(), 3);
  const auto events = parsed(trace);
  EXPECT_EQ(spans_of(events).size(), 2u);
  EXPECT_NE(events.dump().find("reduce (3 spans dropped)"), std::string::npos);
}

TEST(Trace, LanesRecordFromTheirThreadsWhileAnotherReads) {
  constexpr int n = 5'000;
  Trace trace(n);
  const auto work = [&](Lane lane) {
    for (int i = 0; i < n; ++i)
      trace.record(lane, {.name = name_of(lane), .start_ns = i, .end_ns = i + 1, .bucket = i});
  };
  std::thread compute(work, Lane::compute), gather(work, Lane::gather), reduce(work, Lane::reduce);
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(parsed(trace));
  compute.join(), gather.join(), reduce.join();
  std::map<int, std::int64_t> next;
  for (const auto& span : spans_of(parsed(trace))) {
    const int row = span.at("tid");
    ASSERT_EQ(span.at("args").at("bucket"), next[row]++);
    ASSERT_EQ(span.at("name"), name_of(static_cast<Lane>(row)));
  }
  EXPECT_EQ(next, (std::map<int, std::int64_t>{{0, n}, {1, n}, {2, n}}));
}

TEST(Trace, ScopeMeasuresTime) {
  Trace trace(1);
  const auto before = Trace::now_ns();
  {
    const TraceScope scope(trace, row_of(Lane::compute), {.name = "sleep"});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const double limit = static_cast<double>(Trace::now_ns() - before) / 1000;
  const double us = spans_of(parsed(trace)).at(0).at("dur");
  EXPECT_GE(us, 5000);
  EXPECT_LE(us, limit);
}

TEST(Trace, OffRecordsNothing) {
  Trace trace;
  EXPECT_FALSE(trace.on());
  trace.record(Lane::compute, {.name = "x"});
  { const TraceScope scope(trace, row_of(Lane::reduce), {.name = "y"}); }
  EXPECT_EQ(trace.dropped(), 0);
  EXPECT_TRUE(spans_of(parsed(trace)).empty());
}

/// Writes a trace of these events, each by a rank of its own. Returns what rank 0 says.
bool write_on_ranks(const std::string& path, const std::vector<std::string>& events,
                    std::int64_t bytes_at_once = trace_bytes_at_once) {
  comm::FakeOptions options;
  options.size = static_cast<int>(events.size());
  auto worlds = comm::make_fake_worlds(options);
  std::vector<char> written(events.size(), 0);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < events.size(); ++rank)
    threads.emplace_back(
        [&, rank] { written[rank] = write_trace(path, *worlds[rank], events[rank], bytes_at_once) ? 1 : 0; });
  for (auto& thread : threads) thread.join();
  for (std::size_t rank = 1; rank < events.size(); ++rank) EXPECT_EQ(written[rank], 1) << rank;

  // Rank 0 receives no more between two collectives, before which nobody sends.
  std::int64_t since = 0, longest = 0;
  for (const std::string& text : events) longest = std::max(longest, std::ssize(text));
  for (const comm::RecordedCall& call : worlds[0]->recorder().read().calls) {
    since = call.collective ? 0 : since + call.bytes;
    EXPECT_LE(since, std::max(bytes_at_once, longest));
  }
  return written[0] == 1;
}

TEST(Trace, EventsOfRanksStandInTheirOrderHoweverManyComeAtOnce) {
  const test::TemporaryDirectory directory;
  std::vector<std::string> events;
  std::string expected = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  for (int rank = 0; rank < 5; ++rank) {
    events.push_back("{\"pid\": " + std::string(static_cast<std::size_t>(1 + 40 * rank), ' ') +
                     std::to_string(rank) + "}");
    expected += (rank == 0 ? "" : ",\n") + events.back();
  }
  expected += "\n]}\n";
  for (const int bytes : {1, 200, 400, 1000, 1 << 20}) {
    SCOPED_TRACE(bytes);
    ASSERT_TRUE(write_on_ranks(directory / "trace.json", events, bytes));
    EXPECT_EQ(test::read_file(directory / "trace.json"), expected);
    std::filesystem::remove(directory / "trace.json");
  }
}

TEST(Trace, RanksGoOnWhenTheFileCannotBeWritten) {
  EXPECT_FALSE(write_on_ranks("/nowhere/trace.json", {"{}", "{}", "{}"}, 1));
}

TEST(Trace, RanksMergeIntoOneFile) {
  const test::TemporaryDirectory directory;
  std::vector<std::string> events;
  for (int rank = 0; rank < 3; ++rank) {
    Trace trace(1);
    trace.record(Lane::compute, {.name = "matmul", .start_ns = rank, .end_ns = rank + 1});
    events.push_back(trace.events(rank, "n"));
  }
  ASSERT_TRUE(write_on_ranks(directory / "trace.json", events));
  const auto file = json::parse(test::read_file(directory / "trace.json"));
  const auto spans = spans_of(file.at("traceEvents"));
  ASSERT_EQ(spans.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(spans[static_cast<std::size_t>(rank)].at("pid"), rank);
}

TEST(Trace, AFileThatCannotBeWrittenIsAWarning) {
  const test::TemporaryDirectory directory;
  comm::FakeWorld world;
  EXPECT_FALSE(write_trace("/nowhere/trace.json", world, ""));
  EXPECT_FALSE(write_trace(directory.path(), world, "")) << "a directory";
  // What is there already outlives a disk that is full.
  ASSERT_TRUE(write_trace(directory / "trace.json", world, ""));
  const std::string old = test::read_file(directory / "trace.json");
  std::filesystem::create_symlink("/dev/full", directory / "trace.json.tmp");
  EXPECT_FALSE(write_trace(directory / "trace.json", world, ""));
  EXPECT_EQ(test::read_file(directory / "trace.json"), old);
}

}  // namespace
}  // namespace weft::exec
