#include "watch/diagnose.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace weft::watch {
namespace {

/// A channel as all its ranks know it: its name, its members, and how many such channels were opened before
/// it.
using Key = std::tuple<std::string, std::vector<int>, int>;

Key key_of(const comm::RecordedChannel& c) {
  return {c.name, c.ranks, c.opened};
}

/// A wait for storage that is shorter is no reason for a hang.
constexpr double long_wait_s = 1;
/// Nor is one that has lasted less than this share of the time for which ranks have waited for each other: a
/// save in the background may be in an fsync like any other. A rank's fsync begins a little later than the
/// wait of those that have done theirs, so the share is not 1.
constexpr double long_share = 0.5;

class Analysis {
 public:
  Analysis(const std::vector<RankRecords>& records, const std::vector<std::string>& hosts)
      : records_(records), hosts_(hosts) {
    for (const RankRecords& r : records_) {
      result_.ranks = std::max(result_.ranks, r.ranks);
      of_rank_[r.rank] = &r;
      for (std::size_t c = 0; c < r.channels.size(); ++c) channels_[key_of(r.channels[c])][r.rank] = c;
    }
  }

  Diagnosis run() {
    for (int rank = 0; rank < result_.ranks; ++rank)
      if (!of_rank_.contains(rank)) result_.silent.push_back(rank);
    find_standings();
    find_waits();
    if (!find_difference() && !find_storage() && !find_silent() && !find_absent() && !find_circle())
      find_stuck();
    return std::move(result_);
  }

 private:
  struct Difference {
    double at = 0;  ///< when the first rank entered it
    Key channel;
    std::uint64_t sequence = 0;
    std::map<std::string, std::vector<int>> ranks;  ///< ranks, by what they called
  };

  void find_standings();
  void find_waits();
  bool find_difference();
  bool waits_for_storage(const RankRecords& r) const;
  bool find_storage();
  bool find_silent();
  bool find_absent();
  bool find_circle();
  void find_stuck();
  void difference_in(const Key& key, std::optional<Difference>& earliest) const;
  std::vector<int> missing_from(const Key& key, std::uint64_t sequence) const;
  std::set<int> missing() const;
  std::string name(int rank) const;
  std::string doing(int rank) const;

  const std::vector<RankRecords>& records_;
  const std::vector<std::string>& hosts_;
  std::map<int, const RankRecords*> of_rank_;
  /// By channel and rank: the channel's place in the rank's records.
  std::map<Key, std::map<int, std::size_t>> channels_;
  Diagnosis result_;
};

/// A rank with its host: "rank 2 on n3".
std::string Analysis::name(int rank) const {
  const auto r = of_rank_.find(rank);
  if (r != of_rank_.end()) return fmt::format("rank {} on {}", rank, r->second->host);
  const auto i = static_cast<std::size_t>(rank);
  return i < hosts_.size() ? fmt::format("rank {} on {}", rank, hosts_[i]) : fmt::format("rank {}", rank);
}

/// What a rank does: "in step 118 for 12.3 s, 12.2 s after gather.data #56 (...)".
std::string Analysis::doing(int rank) const {
  const RankRecords& r = *of_rank_.at(rank);
  std::string text = "in " + r.activity;
  if (r.step > 0) text += fmt::format(" {}", r.step);
  text += fmt::format(" for {:.1f} s", r.written - r.since);
  if (r.calls.empty()) return text + ", before its first collective";
  const Call& last = r.calls.back();
  return text + fmt::format(", {:.1f} s after {}", r.written - std::max(last.enqueued, last.done),
                            describe(r, last));
}

void Analysis::find_standings() {
  for (const auto& [key, places] : channels_) {
    std::map<std::tuple<std::uint64_t, std::uint64_t, bool>, std::vector<int>> ranks;
    bool used = false;
    for (const auto& [rank, place] : places) {
      const comm::RecordedChannel& c = of_rank_.at(rank)->channels[place];
      ranks[{c.started, c.done, c.ends_seen}].push_back(rank);
      used = used || (c.open && c.started > 0);
    }
    if (!used) continue;
    for (const auto& [at, list] : ranks)
      result_.standings.push_back(
          {std::get<0>(key), list, std::get<0>(at), std::get<1>(at), std::get<2>(at)});
  }
}

/// The members of the channel that have not started its collective, or have left no records.
std::vector<int> Analysis::missing_from(const Key& key, std::uint64_t sequence) const {
  std::vector<int> ranks;
  const auto& places = channels_.at(key);
  for (const int rank : std::get<1>(key)) {
    const auto place = places.find(rank);
    if (place == places.end() || of_rank_.at(rank)->channels[place->second].started < sequence)
      ranks.push_back(rank);
  }
  return ranks;
}

void Analysis::find_waits() {
  std::map<std::pair<Key, std::uint64_t>, std::size_t> collectives;
  for (const RankRecords& r : records_) {
    const Call* const o = waits_for(r);
    if (o == nullptr) continue;
    const comm::RecordedChannel& channel = r.channels[o->channel];
    const Key key = key_of(channel);
    WaitingCall wait{describe(r, *o), o->started, {r.rank}, {}};
    if (!o->collective) {
      wait.missing = {channel.ranks[static_cast<std::size_t>(o->peer)]};
    } else if (const auto known = collectives.find({key, o->sequence}); known != collectives.end()) {
      WaitingCall& same = result_.waits[known->second];
      same.waiting.push_back(r.rank);
      same.since = std::min(same.since, o->started);
      continue;
    } else {
      wait.missing = missing_from(key, o->sequence);
      collectives[{key, o->sequence}] = result_.waits.size();
    }
    result_.waits.push_back(std::move(wait));
  }
  std::sort(result_.waits.begin(), result_.waits.end(),
            [](const WaitingCall& a, const WaitingCall& b) { return a.since < b.since; });
}

/// Finds the channel's first number under which ranks made different calls, and keeps it if it is earlier
/// than the one found so far.
void Analysis::difference_in(const Key& key, std::optional<Difference>& earliest) const {
  std::map<std::uint64_t, Difference> by_sequence;
  for (const auto& [rank, place] : channels_.at(key)) {
    const RankRecords& r = *of_rank_.at(rank);
    for (const Call& o : r.calls) {
      if (o.channel != place || !o.collective) continue;
      Difference& d = by_sequence[o.sequence];
      d.at = d.ranks.empty() ? o.enqueued : std::min(d.at, o.enqueued);
      std::string called = fmt::format("{} of {} bytes", o.kind, o.bytes);
      if (!o.label.empty()) called += ", " + o.label;
      if (o.peer >= 0) called += fmt::format(", root {}", o.peer);
      d.ranks[called].push_back(rank);
    }
  }
  for (auto& [sequence, d] : by_sequence) {
    if (d.ranks.size() < 2) continue;
    d.channel = key;
    d.sequence = sequence;
    if (!earliest || d.at < earliest->at) earliest = std::move(d);
    return;
  }
}

bool Analysis::find_difference() {
  std::optional<Difference> earliest;
  for (const auto& [key, places] : channels_) difference_in(key, earliest);
  if (!earliest) return false;
  // What most ranks called is taken as right; of equally many, what the lowest rank called.
  const auto right =
      std::max_element(earliest->ranks.begin(), earliest->ranks.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.size(), -a.second[0]) < std::pair(b.second.size(), -b.second[0]);
      });
  std::string others;
  for (auto call = earliest->ranks.begin(); call != earliest->ranks.end(); ++call) {
    if (call == right) continue;
    result_.first.insert(result_.first.end(), call->second.begin(), call->second.end());
    others += fmt::format("{}{} on {}", others.empty() ? "" : ", ", call->first, list_of(call->second));
  }
  std::sort(result_.first.begin(), result_.first.end());
  result_.verdict = fmt::format("{} at {} #{}: {}, where {} called {}", name(result_.first[0]),
                                std::get<0>(earliest->channel), earliest->sequence, others,
                                list_of(right->second), right->first);
  return true;
}

/// Whether the rank has waited for storage for so long that the others may wait because of it.
bool Analysis::waits_for_storage(const RankRecords& r) const {
  const double others_wait = result_.waits.empty() ? 0 : r.written - result_.waits[0].since;
  return !r.storage.empty() && r.written - r.storage_since >= std::max(long_wait_s, long_share * others_wait);
}

/// Looks for ranks that have waited for storage for long. The one whose wait is oldest is the first to
/// diverge.
bool Analysis::find_storage() {
  const RankRecords* oldest = nullptr;
  for (const RankRecords& r : records_) {
    if (!waits_for_storage(r)) continue;
    result_.first.push_back(r.rank);
    if (oldest == nullptr || r.storage_since < oldest->storage_since) oldest = &r;
  }
  if (oldest == nullptr) return false;
  result_.verdict = fmt::format("{}: its storage does not answer, {} for {:.1f} s", name(oldest->rank),
                                oldest->storage, oldest->written - oldest->storage_since);
  if (result_.first.size() > 1)
    result_.verdict += fmt::format(" (of {}, which wait for storage)", list_of(result_.first));
  return true;
}

bool Analysis::find_silent() {
  if (result_.silent.empty()) return false;
  result_.first = result_.silent;
  result_.verdict = name(result_.first[0]);
  if (result_.first.size() > 1)
    result_.verdict += fmt::format(" (and {} more: {})", result_.first.size() - 1, list_of(result_.first));
  result_.verdict += ": left no records; stopped, dead, or cut off from the run's directory";
  return true;
}

std::set<int> Analysis::missing() const {
  std::set<int> ranks;
  for (const WaitingCall& w : result_.waits) ranks.insert(w.missing.begin(), w.missing.end());
  return ranks;
}

bool Analysis::find_absent() {
  for (const int rank : missing())
    if (waits_for(*of_rank_.at(rank)) == nullptr) result_.first.push_back(rank);
  if (result_.first.empty()) return false;
  // The rank that has been silent for longest held the others up.
  std::sort(result_.first.begin(), result_.first.end(), [&](int a, int b) {
    return std::pair(of_rank_.at(a)->last, a) < std::pair(of_rank_.at(b)->last, b);
  });
  const int rank = result_.first[0];
  result_.verdict = fmt::format("{}: waits for no rank; {}", name(rank), doing(rank));
  if (result_.first.size() > 1) {
    std::vector<int> all = result_.first;
    std::sort(all.begin(), all.end());
    result_.verdict += fmt::format(" (of {}, which others wait for and which wait for nobody)", list_of(all));
  }
  return true;
}

bool Analysis::find_circle() {
  const std::set<int> ranks = missing();
  if (ranks.empty()) return false;
  const auto since = [&](int rank) { return waits_for(*of_rank_.at(rank))->started; };
  const int rank =
      *std::min_element(ranks.begin(), ranks.end(), [&](int a, int b) { return since(a) < since(b); });
  result_.first = {rank};
  const RankRecords& r = *of_rank_.at(rank);
  result_.verdict =
      fmt::format("{}: others wait for it, and it waits for {}", name(rank), describe(r, *waits_for(r)));
  return true;
}

void Analysis::find_stuck() {
  result_.verdict = result_.waits.empty()
                        ? "no rank: none waits for another"
                        : fmt::format(
                              "no rank: all have started {}, and it does not end (the network, or "
                              "the library that sends)",
                              result_.waits[0].what);
}

}  // namespace

Diagnosis diagnose(const std::vector<RankRecords>& records, const std::vector<std::string>& hosts) {
  return Analysis(records, hosts).run();
}

}  // namespace weft::watch
