#include "watch/records.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "io/named_path.hpp"
#include "io/small_file.hpp"
#include "io/storage_wait.hpp"

// The lines' keys are the members' names.
namespace weft::comm {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RecordedChannel, name, ranks, opened, ends_seen, open, enqueued, started,
                                   done)
}  // namespace weft::comm

namespace weft::watch {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Call, number, channel, kind, bytes, peer, collective, sequence, host_waits,
                                   step, label, enqueued, started, done)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankRecords, rank, ranks, host, written, activity, step, since, last,
                                   storage, storage_since)

namespace {

using nlohmann::json;

/// A deck has no more ranks. A diagnosis makes a list of all of them.
constexpr int most_ranks = 1 << 24;

bool is_rank(int rank, const RankRecords& r) {
  return rank >= 0 && rank < r.ranks;
}

// A diagnosis takes ranks, channels and peers for places in its lists, so each of them must be one.

void check_ranks(const RankRecords& r, const std::string& path) {
  WEFT_VALIDATE(r.ranks >= 1 && r.ranks <= most_ranks, "a run of {} ranks", r.ranks);
  WEFT_VALIDATE(is_rank(r.rank, r), "rank {} of {}", r.rank, r.ranks);
  WEFT_VALIDATE(path.ends_with(records_path("", r.rank)), "rank {} has another file", r.rank);
}

void check_channel(const comm::RecordedChannel& channel, const RankRecords& r) {
  for (const int rank : channel.ranks)
    WEFT_VALIDATE(is_rank(rank, r), "a channel with rank {} of {}", rank, r.ranks);
}

void check_call(const Call& call, const RankRecords& r) {
  WEFT_VALIDATE(call.channel < r.channels.size(), "there is no channel {}", call.channel);
  const auto members = static_cast<std::int64_t>(r.channels[call.channel].ranks.size());
  WEFT_VALIDATE(call.collective || (call.peer >= 0 && call.peer < members),
                "a message to or from place {} of a channel of {} ranks", call.peer, members);
}

void read_line(const json& j, bool first, const std::string& path, RankRecords& r) {
  if (first) {
    r = j;
    check_ranks(r, path);
  } else if (j.contains("opened")) {
    r.channels.push_back(j);
    check_channel(r.channels.back(), r);
  } else {
    r.calls.push_back(j);
    check_call(r.calls.back(), r);
  }
}

RankRecords read_file(const std::string& path) {
  const std::optional<std::string> text = io::read_if_there(path);
  WEFT_VALIDATE(text, "{}: no records (the file was removed just now)", path);
  RankRecords r;
  std::istringstream in(*text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    try {
      read_line(json::parse(line), ++number == 1, path, r);
    } catch (const std::exception& e) {
      WEFT_VALIDATE(false, "{}:{}: not a line of records ({})", path, number, e.what());
    }
  }
  WEFT_VALIDATE(number > 0, "{}: no records (the file is empty)", path);
  return r;
}

}  // namespace

void write_text(const std::string& path, const std::string& text) {
  // This does not wait for storage, because storage may be what hangs. The other ranks, which look for this
  // file now, see it before it is on storage.
  io::replace_file(path, text, io::Named::by_weft, io::Sync::no);
}

RankRecords records_of(const comm::Recorder& recorder, int rank, int ranks, const std::string& host) {
  comm::RecordedCalls all = recorder.read();
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const auto time = [&](std::int64_t ns) {
    return ns == 0 ? 0.0 : now - 1e-9 * static_cast<double>(all.now_ns - ns);
  };
  RankRecords r{rank,
                ranks,
                host,
                now,
                all.activity,
                all.step,
                time(all.activity_ns),
                time(all.last_ns),
                {},
                0,
                std::move(all.channels),
                {}};
  if (const auto storage = io::oldest_storage_wait()) {
    r.storage = fmt::format("{} of {}", storage->what, storage->path);
    r.storage_since = now - (seconds_now() - storage->since);
  }
  for (const comm::RecordedCall& o : all.calls)
    r.calls.push_back({o.number, o.channel, std::string(o.kind), o.bytes, o.peer, o.collective, o.sequence,
                       o.host_waits, o.step, o.label.data(), time(o.enqueued_ns), time(o.started_ns),
                       time(o.done_ns)});
  return r;
}

const Call* waits_for(const RankRecords& records) {
  const bool host_waits =
      std::any_of(records.calls.begin(), records.calls.end(), [](const Call& o) { return o.host_waits; });
  const Call* first = nullptr;
  for (const Call& o : records.calls) {
    const comm::RecordedChannel& channel = records.channels[o.channel];
    const bool waits = o.started > 0 && o.done == 0 && channel.open && channel.ends_seen;
    if (!waits || (!o.collective && !host_waits)) continue;
    if (first == nullptr ||
        std::pair(!o.host_waits, o.started) < std::pair(!first->host_waits, first->started))
      first = &o;
  }
  return first;
}

std::string records_path(const std::string& dir, int rank) {
  return fmt::format("{}/rank-{:05}.jsonl", dir, rank);
}

void write_records(const std::string& dir, const RankRecords& records) {
  // What a path has that is not UTF-8 is replaced: the record would be lost for it.
  const auto line = [](const json& record) {
    return record.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  };
  std::string text = line(records);
  for (const comm::RecordedChannel& c : records.channels) text += line(c);
  for (const Call& c : records.calls) text += line(c);
  write_text(records_path(dir, records.rank), text);
}

std::vector<RankRecords> read_records(const std::string& dir) {
  std::vector<RankRecords> all;
  for (const std::string& name : io::names_in(dir))
    if (name.starts_with("rank-") && name.ends_with(".jsonl")) all.push_back(read_file(dir + "/" + name));
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return all;
}

void write_hosts(const std::string& dir, const std::vector<std::string>& hosts) {
  write_text(dir + "/hosts.txt", fmt::format("{}\n", fmt::join(hosts, "\n")));
}

std::vector<std::string> read_hosts(const std::string& dir) {
  std::vector<std::string> hosts;
  std::istringstream in(io::read_if_there(dir + "/hosts.txt").value_or(""));
  for (std::string line; std::getline(in, line);) hosts.push_back(line);
  return hosts;
}

}  // namespace weft::watch
