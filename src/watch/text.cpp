// The diagnosis of a hang in words (declared in diagnose.hpp).
#include <fmt/core.h>

#include "base/text.hpp"
#include "watch/diagnose.hpp"

namespace weft::watch {

std::string describe(const RankRecords& records, const Call& o) {
  const comm::RecordedChannel& channel = records.channels[o.channel];
  if (!o.collective) {
    const std::string place = o.sequence > 0 ? fmt::format(", after #{}", o.sequence) : "";
    const std::string label = o.label.empty() ? "" : o.label + ", ";
    return fmt::format("{}{} ({} {} rank {}, {}{})", channel.name, place, o.kind,
                       o.kind == "send" ? "to" : "from", channel.ranks[static_cast<std::size_t>(o.peer)],
                       label, bytes_text(o.bytes));
  }
  std::string what = o.kind;
  if (!o.label.empty()) what += ", " + o.label;
  if (o.bytes > 0) what += ", " + bytes_text(o.bytes);
  return fmt::format("{} #{} ({})", channel.name, o.sequence, what);
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[i]);
    if (end - i > 1) text += (end - i > 2 ? "-" : ", ") + std::to_string(ranks[end - 1]);
    i = end;
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

std::string text_of(const WaitingCall& w) {
  return fmt::format("{}: {}; {} {}", w.what,
                     w.missing.empty() ? "all ranks are in it" : "missing " + list_of(w.missing),
                     list_of(w.waiting), w.waiting.size() == 1 ? "waits" : "wait");
}

std::string text_of(const Diagnosis& d) {
  std::string text = fmt::format("first to diverge: {}\n", d.verdict);
  if (!d.silent.empty()) text += fmt::format("without records: {}\n", list_of(d.silent));
  for (const WaitingCall& w : d.waits) text += text_of(w) + "\n";
  text += fmt::format("\n{:<24} {:>9} {:>9}  {}\n", "collectives of", "started", "done", "by");
  for (const Standing& s : d.standings)
    text += fmt::format("{:<24} {:>9} {:>9}  {}\n", s.channel, s.started,
                        s.ends_seen ? std::to_string(s.done) : "-", list_of(s.ranks));
  return text;
}

}  // namespace weft::watch
