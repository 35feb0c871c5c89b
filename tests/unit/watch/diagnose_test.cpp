// Tests diagnoses with records made by hand: who is missing, and which rank diverged first.
#include "watch/diagnose.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "support/temporary_directory.hpp"
#include "watch/watchdog.hpp"

namespace weft::watch {
namespace {

using test::TemporaryDirectory;

constexpr double now = 1'790'000'000;

/// The records of one of three ranks, on channels gather.data (0) and reduce.data (1), and pipe.0-1 (2) and
/// pipe.1-2 (3), which two of them have, at second 100 of `now`.
class Rank {
 public:
  explicit Rank(int rank) {
    r_.rank = rank;
    r_.ranks = 3;
    r_.host = "n" + std::to_string(rank);
    r_.written = now + 100;
    r_.activity = "step";
    r_.step = 118;
    r_.since = now + 80;
    for (const char* name : {"gather.data", "reduce.data"}) {
      comm::RecordedChannel channel;
      channel.name = name;
      channel.ranks = {0, 1, 2};
      r_.channels.push_back(channel);
    }
    for (const int place : {0, 1}) {
      comm::RecordedChannel channel;
      channel.name = "pipe." + std::to_string(place) + "-" + std::to_string(place + 1);
      channel.ranks = {place, place + 1};
      r_.channels.push_back(channel);
    }
  }
  Rank& done(std::size_t channel, const std::string& label, std::int64_t bytes = 4 << 20,
             const std::string& kind = "all_gather") {
    add(channel, label, bytes, kind).done = ++clock_;
    ++r_.channels[channel].done;
    return *this;
  }
  Rank& waits(std::size_t channel, const std::string& label, double since = 88) {
    Call& o = add(channel, label, 4 << 20, "all_gather");
    o.started = now + since;
    return *this;
  }
  /// A message on a pipe that has begun and is not done. The host may go on meanwhile.
  Rank& message(std::size_t channel, const std::string& kind, double since, bool host_waits) {
    Call& o = add(channel, "forward x", 64, kind);
    --r_.channels[channel].enqueued;
    r_.channels[channel].started = o.sequence = 0;
    o.collective = false;
    o.peer = r_.channels[channel].ranks[0] == r_.rank ? 1 : 0;
    o.started = now + since;
    o.host_waits = host_waits;
    return *this;
  }
  Rank& storage(const std::string& call, double since) {
    r_.storage = call;
    r_.storage_since = now + since;
    return *this;
  }
  operator RankRecords() const { return r_; }  // NOLINT(google-explicit-constructor)

 private:
  Call& add(std::size_t channel, const std::string& label, std::int64_t bytes, const std::string& kind) {
    comm::RecordedChannel& c = r_.channels[channel];
    c.started = ++c.enqueued;
    Call o;
    o.number = r_.calls.size() + 1;
    o.channel = channel;
    o.kind = kind;
    o.bytes = bytes;
    o.sequence = c.enqueued;
    o.step = r_.step;
    o.label = label;
    o.enqueued = o.started = r_.last = ++clock_;
    r_.calls.push_back(o);
    return r_.calls.back();
  }

  RankRecords r_;
  double clock_ = now + 10;
};

std::vector<int> first_of(const std::vector<RankRecords>& records) {
  return diagnose(records, {"n0", "n1", "n2"}).first;
}

TEST(Diagnose, ARankThatHasNotCome) {
  const Diagnosis d = diagnose({Rank(0).done(0, "embed").waits(0, "layers.0"), Rank(1).done(0, "embed"),
                                Rank(2).done(0, "embed").waits(0, "layers.0", 90)},
                               {});
  EXPECT_EQ(d.first, std::vector{1});
  ASSERT_EQ(d.waits.size(), 1U);
  EXPECT_EQ(text_of(d.waits[0]),
            "gather.data #2 (all_gather, layers.0, 4.00 MiB): missing rank 1; ranks 0, 2 wait");
  EXPECT_EQ(d.verdict,
            "rank 1 on n1: waits for no rank; in step 118 for 20.0 s, 88.0 s after gather.data #1 "
            "(all_gather, embed, 4.00 MiB)");
}

TEST(Diagnose, ARankWithoutRecords) {
  const Diagnosis d = diagnose({Rank(0).waits(0, "embed"), Rank(1).waits(0, "embed")}, {"n0", "n1", "n2"});
  EXPECT_EQ(d.silent, std::vector{2});
  EXPECT_EQ(d.first, std::vector{2});
  EXPECT_EQ(d.waits[0].missing, std::vector{2});
  EXPECT_EQ(d.verdict, "rank 2 on n2: left no records; stopped, dead, or cut off from the run's directory");
}

TEST(Diagnose, StorageThatDoesNotAnswer) {
  const std::string file = "fsync of shard";
  const Rank waits = Rank(1).waits(0, "embed", 40);
  const Diagnosis d = diagnose({Rank(0).waits(0, "embed", 40), waits, Rank(2).storage(file, 30)}, {});
  EXPECT_EQ(d.first, std::vector{2});
  EXPECT_EQ(d.verdict, "rank 2 on n2: its storage does not answer, fsync of shard for 70.0 s");
  EXPECT_EQ(first_of({Rank(0), Rank(1).storage(file, 50), Rank(2)}), std::vector{1}) << "nobody waits";
  // A rank that writes longer than the others begins its fsync after they have begun to wait for it.
  EXPECT_EQ(first_of({Rank(0).waits(0, "embed", 40).storage(file, 98), waits, Rank(2).storage(file, 45)}),
            std::vector{2});
}

/// A save in the background is in an fsync that has just begun, and the others have waited for long.
TEST(Diagnose, StorageThatIsSlowForAMomentIsNotBlamed) {
  for (const double since : {51.0, 95.0, 99.5}) {
    SCOPED_TRACE(since);
    const Rank saves = Rank(0).waits(0, "embed", 0).storage("fsync of shard", since);
    const Rank waits = Rank(1).waits(0, "embed", 1);
    EXPECT_EQ(first_of({saves, waits}), std::vector{2}) << "it left no records";
    EXPECT_EQ(first_of({saves, waits, Rank(2)}), std::vector{2}) << "it waits for no rank";
  }
}

TEST(Diagnose, AnotherOperation) {
  const Diagnosis d = diagnose({Rank(0).done(0, "embed").waits(0, "layers.0"),
                                Rank(1).done(0, "embed").done(0, "layers.0", 4 << 20, "broadcast"),
                                Rank(2).done(0, "embed").waits(0, "layers.0")},
                               {});
  EXPECT_EQ(d.first, std::vector{1});
  EXPECT_EQ(
      d.verdict,
      "rank 1 on n1 at gather.data #2: broadcast of 4194304 bytes, layers.0 on rank 1, where ranks 0, 2 "
      "called all_gather of 4194304 bytes, layers.0");
}

TEST(Diagnose, AnotherSize) {
  EXPECT_EQ(
      first_of({Rank(0).done(0, "embed", 64), Rank(1).done(0, "embed", 64), Rank(2).done(0, "embed", 32)}),
      std::vector{2});
}

// Rank 0 left one call out: its second is the others' third, and the sizes are equal.
TEST(Diagnose, ASkippedOperation) {
  EXPECT_EQ(first_of({Rank(0).done(0, "embed").waits(0, "layers.1"),
                      Rank(1).done(0, "embed").done(0, "layers.0").waits(0, "layers.1"),
                      Rank(2).done(0, "embed").done(0, "layers.0").waits(0, "layers.1")}),
            std::vector{0});
}

// The earliest difference counts, because what follows it differs, too.
TEST(Diagnose, TheFirstOfTwoDifferences) {
  const Diagnosis d = diagnose({Rank(0).done(1, "a").done(0, "x"), Rank(1).done(1, "a").done(0, "x"),
                                Rank(2).done(1, "b").done(0, "y")},
                               {});
  EXPECT_NE(d.verdict.find("reduce.data #1"), std::string::npos) << d.verdict;
}

// Rank 0 waits for rank 1, which waits for rank 2, which waits for nobody.
TEST(Diagnose, TheEndOfAChain) {
  EXPECT_EQ(first_of({Rank(0).waits(1, "head"), Rank(1).waits(0, "embed"), Rank(2).done(1, "head")}),
            std::vector{2});
}

TEST(Diagnose, ACircle) {
  const Diagnosis d = diagnose({Rank(0).done(0, "embed").waits(1, "head", 90), Rank(1).waits(0, "embed", 80),
                                Rank(2).done(0, "embed").waits(1, "head", 91)},
                               {});
  EXPECT_EQ(d.first, std::vector{1});
  EXPECT_NE(d.verdict.find("others wait for it, and it waits for gather.data #1"), std::string::npos)
      << d.verdict;
}

// Stage 0 computes and does not end, and has asked for a message of stage 1, as a pipe does.
TEST(Diagnose, AMessageThatIsAskedForEarlyIsNoWait) {
  const Diagnosis d = diagnose({Rank(0).message(2, "recv", 80, false), Rank(1).message(2, "recv", 82, true),
                                Rank(2).message(3, "recv", 81, true)},
                               {});
  EXPECT_EQ(d.first, std::vector{0});
  ASSERT_EQ(d.waits.size(), 2U);
  EXPECT_EQ(text_of(d.waits[0]),
            "pipe.1-2 (recv from rank 1, forward x, 64 B): missing rank 1; rank 2 waits");
  EXPECT_EQ(text_of(d.waits[1]),
            "pipe.0-1 (recv from rank 0, forward x, 64 B): missing rank 0; rank 1 waits");
  EXPECT_NE(d.verdict.find("rank 0 on n0: waits for no rank"), std::string::npos) << d.verdict;
}

// Rank 1 has asked for a message for longer than it has waited in the collective that rank 2 does not come
// to.
TEST(Diagnose, WhatTheHostWaitsForCounts) {
  Rank waits = Rank(1).message(2, "recv", 80, false).waits(0, "embed", 90);
  EXPECT_EQ(first_of({Rank(0).message(2, "recv", 85, true), waits, Rank(2)}), std::vector{2});
}

TEST(Diagnose, AllAreInIt) {
  const Diagnosis d =
      diagnose({Rank(0).waits(0, "embed"), Rank(1).waits(0, "embed"), Rank(2).waits(0, "embed")}, {});
  EXPECT_TRUE(d.first.empty());
  EXPECT_EQ(
      d.verdict,
      "no rank: all have started gather.data #1 (all_gather, embed, 4.00 MiB), and it does not end (the "
      "network, or the library that sends)");
}

TEST(Diagnose, NobodyWaits) {
  EXPECT_EQ(
      diagnose({Rank(0).done(0, "embed"), Rank(1).done(0, "embed"), Rank(2).done(0, "embed")}, {}).verdict,
      "no rank: none waits for another");
}

/// What a call lacks leaves no comma and no hole.
TEST(Diagnose, CallsInShort) {
  const RankRecords r =
      Rank(0).done(1, "", 0, "barrier").done(1, "", 64).done(1, "x", 0).message(2, "send", 80, false);
  EXPECT_EQ(describe(r, r.calls[0]), "reduce.data #1 (barrier)");
  EXPECT_EQ(describe(r, r.calls[1]), "reduce.data #2 (all_gather, 64 B)");
  EXPECT_EQ(describe(r, r.calls[2]), "reduce.data #3 (all_gather, x)");
  Call message = r.calls[3];
  EXPECT_EQ(describe(r, message), "pipe.0-1 (send to rank 1, forward x, 64 B)");
  message.label.clear();
  message.sequence = 2;
  EXPECT_EQ(describe(r, message), "pipe.0-1, after #2 (send to rank 1, 64 B)");
}

TEST(Diagnose, RanksInShort) {
  EXPECT_EQ(list_of({3}), "rank 3");
  EXPECT_EQ(list_of({0, 1, 2, 3, 5, 6, 9}), "ranks 0-3, 5, 6, 9");
}

TEST(Records, SurviveTheFile) {
  const TemporaryDirectory directory;
  RankRecords one = Rank(1).done(0, "embed").waits(1, "quote \" and \\").message(2, "recv", 80, true);
  one.last = now + 99;
  one.storage = "fsync of a file";
  one.storage_since = now + 90;
  one.channels[1].opened = 1;
  one.channels[2].ends_seen = false;
  one.channels[3].open = false;
  write_records(directory.path(), one);
  const RankRecords zero = Rank(0);
  write_records(directory.path(), zero);
  const auto read = read_records(directory.path());
  ASSERT_EQ(read.size(), 2U);
  EXPECT_TRUE(read[0] == zero);
  EXPECT_TRUE(read[1] == one);
}

TEST(Records, AreNotLostForAPathThatIsNotUtf8) {
  const TemporaryDirectory directory;
  RankRecords records = Rank(0);
  records.storage = "fsync of /tmp/caf\xe9";
  write_records(directory.path(), records);
  EXPECT_EQ(read_records(directory.path()).at(0).storage, "fsync of /tmp/caf\xef\xbf\xbd");
}

/// The recorder keeps as much of a label as it has room for. All of that comes back, and nothing of what the
/// call before in the same place of its ring had.
TEST(Records, LabelsSurviveTheFileUpToTheirGreatestLength) {
  const TemporaryDirectory directory;
  constexpr std::size_t greatest = sizeof(comm::RecordedCall::label) - 1;  // its text ends with a zero
  std::string text;
  while (text.size() < 2 * greatest) text += static_cast<char>('a' + text.size() % 26);
  const std::vector<std::size_t> lengths{0, 1, greatest - 1, greatest, greatest + 1, text.size()};
  comm::Recorder recorder;
  const std::size_t channel = recorder.open("gather.data", {0, 1}, true);
  for (std::size_t i = 0; i < comm::Recorder::capacity; ++i)
    recorder.enqueued(channel, {.kind = "broadcast", .label = std::string(greatest, '#')});
  for (std::size_t i = 0; i < comm::Recorder::capacity; ++i)
    recorder.enqueued(channel, {.kind = "all_gather",
                                .bytes = 64,
                                .label = std::string_view(text).substr(0, lengths[i % lengths.size()])});
  write_records(directory.path(), records_of(recorder, 0, 2, "n0"));
  const std::vector<RankRecords> read = read_records(directory.path());
  ASSERT_EQ(read.size(), 1U);
  const std::vector<Call>& calls = read[0].calls;
  ASSERT_EQ(calls.size(), comm::Recorder::capacity);
  for (std::size_t i = 0; i < calls.size(); ++i)
    EXPECT_EQ(calls[i].label, text.substr(0, std::min(greatest, lengths[i % lengths.size()])));
  EXPECT_EQ(describe(read[0], calls[3]),
            "gather.data #260 (all_gather, " + text.substr(0, greatest) + ", 64 B)");
}

TEST(Records, ADamagedFileIsNamed) {
  const TemporaryDirectory directory;
  write_records(directory.path(), Rank(0).done(0, "embed"));
  const std::string path = records_path(directory.path(), 0);
  std::ofstream(path, std::ios::app) << "{\"number\": 1";
  try {
    read_records(directory.path());
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(path + ":7: not a line of records"), std::string::npos) << e.what();
  }
}

/// Each of these numbers would lead a diagnosis to what is not there. The lines are those of the rank, of
/// four channels, of a collective, and of a message.
TEST(Records, ANumberOutOfItsRangeIsDamage) {
  struct Damage {
    const char *from, *to;
    int line;
  };
  const TemporaryDirectory directory;
  const std::string path = records_path(directory.path(), 1);
  write_records(directory.path(), Rank(1).done(0, "embed").message(2, "recv", 80, true));
  const std::string whole = test::read_file(path);
  EXPECT_EQ(diagnose(read_records(directory.path()), {}).ranks, 3);
  const std::vector<Damage> all{{R"("ranks":3,)", R"("ranks":0,)", 1},
                                {R"("ranks":3,)", R"("ranks":-1,)", 1},
                                {R"("ranks":3,)", R"("ranks":2000000000,)", 1},
                                {R"("rank":1,)", R"("rank":-1,)", 1},
                                {R"("rank":1,)", R"("rank":3,)", 1},
                                {R"("rank":1,)", R"("rank":0,)", 1},
                                {R"([0,1,2])", R"([0,1,3])", 2},
                                {R"([0,1,2])", R"([-1,1,2])", 2},
                                {R"([1,2])", R"([1,3])", 5},
                                {R"("channel":0,)", R"("channel":4,)", 6},
                                {R"("channel":0,)", R"("channel":-1,)", 6},
                                {R"("collective":true,)", R"("collective":false,)", 6},
                                {R"("peer":0,)", R"("peer":-1,)", 7},
                                {R"("peer":0,)", R"("peer":2,)", 7},
                                {R"("peer":0,)", R"("peer":99,)", 7}};
  for (const auto& [from, to, line] : all) {
    SCOPED_TRACE(to);
    std::string text = whole;
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << whole;
    text.replace(at, std::string(from).size(), to);
    std::ofstream(path, std::ios::binary) << text;
    try {
      ADD_FAILURE() << text_of(diagnose(read_records(directory.path()), {}));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::bad_input);
      const std::string start = path + ":" + std::to_string(line) + ": not a line of records (";
      EXPECT_TRUE(std::string(e.what()).starts_with(start)) << e.what();
    }
  }
}

TEST(Records, AFileThatCannotBeReadIsTheMachines) {
  for (const char* name : {"rank-00000.jsonl", "hosts.txt"}) {
    const TemporaryDirectory directory;
    std::filesystem::create_directory(directory / name);  // even root cannot read it
    try {
      read_records(directory.path());
      read_hosts(directory.path());
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::environment) << e.what();
      EXPECT_NE(std::string(e.what()).find((directory / name) + " (Is a directory)"), std::string::npos)
          << e.what();
    }
  }
}

/// Names are the times of hangs. A directory lists them in any order, and may have what somebody has put
/// there.
TEST(Records, OfTheNewestHangAreRead) {
  std::array<std::string, 3> times{"20251231T235959Z", "20260101T000000Z", "20260101T000001Z"};
  const std::string newest = times.back();
  std::size_t orders = 0;
  do {
    const TemporaryDirectory run;
    const std::string hangs = run / "hang";
    for (const std::string& time : times) std::filesystem::create_directories(hangs + "/" + time);
    std::ofstream(hangs + "/20991231T235959Z") << "a file";
    EXPECT_EQ(newest_records(run.path()), hangs + "/" + newest);
    ++orders;
  } while (std::next_permutation(times.begin(), times.end()));
  EXPECT_EQ(orders, 6U);
}

TEST(Records, OfNoHangAreNamed) {
  const TemporaryDirectory run;
  const auto problem = [&]() -> std::string {
    try {
      return newest_records(run.path());
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::bad_input);
      return e.what();
    }
  };
  const std::string none = run / "hang: no records (";
  EXPECT_TRUE(problem().starts_with(none)) << problem();
  std::filesystem::create_directory(run / "hang");
  std::ofstream(run / "hang/20260101T000000Z") << "a file";
  EXPECT_TRUE(problem().starts_with(none)) << problem();
}

}  // namespace
}  // namespace weft::watch
