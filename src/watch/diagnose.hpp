// Finds out which ranks are missing from which calls, and which rank diverged first, from the records of
// the ranks that left some.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "watch/records.hpp"

namespace weft::watch {

/// Ranks that wait for the same call. A send or a recv is a call of one rank.
struct WaitingCall {
  std::string what;  ///< the call, as describe() writes it
  double since = 0;  ///< when the first of them began it
  std::vector<int> waiting;
  std::vector<int> missing;  ///< members that have not started it; empty: all have started it
};

/// Ranks that stand at the same place of a channel.
struct Standing {
  std::string channel;
  std::vector<int> ranks;
  std::uint64_t started = 0, done = 0;
  bool ends_seen = true;
};

struct Diagnosis {
  int ranks = 0;
  std::vector<int> silent;         ///< ranks that left no records
  std::vector<WaitingCall> waits;  ///< waits, the oldest first
  std::vector<Standing> standings;
  std::vector<int> first;  ///< the ranks that diverged first; empty when none did
  std::string verdict;     ///< one line that says who, where, and why
};

/// Makes a diagnosis. `hosts` has the host of each rank; it may be empty, and then those of silent ranks are
/// not known. The rank that diverged first is, in this order: the one whose call differs from the
/// others' with the same number in its channel; one whose storage has not answered for most of the time for
/// which ranks have waited for each other; one that left no records; one that others wait for and that waits
/// for nobody; of ranks that wait for each other, the one that has waited longest.
Diagnosis diagnose(const std::vector<RankRecords>& records, const std::vector<std::string>& hosts);

/// A call in words: "gather.data #57 (all_gather, forward layers.3.attn, 4.00 MiB)", "world, after #12 (recv
/// from rank 2, 8 B)", or "pipe.0-1.to_next (recv from rank 0, forward layers.2.ffn.out, 1.50 MiB)".
std::string describe(const RankRecords& records, const Call& call);
/// Some ranks in words: "rank 3", "ranks 0-6, 8".
std::string list_of(const std::vector<int>& ranks);
/// A wait in words:
/// "gather.data #57 (all_gather, forward layers.3.attn, 4.00 MiB): missing rank 2; ranks 0, 1 wait".
std::string text_of(const WaitingCall& wait);
/// The whole diagnosis in several lines.
std::string text_of(const Diagnosis& diagnosis);

}  // namespace weft::watch
