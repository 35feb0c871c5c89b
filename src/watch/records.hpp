// What a rank leaves when a run hangs: the recorder's calls as a file of JSON lines. The first line is about
// the rank, and each further one about a channel or a call (shortened here):
//   {"rank": 1, "ranks": 3, "host": "n1", "written": 1790000012.5, "activity": "step", "step": 118, ...}
//   {"name": "gather.data", "ranks": [0, 1, 2], "opened": 0, "enqueued": 57, "started": 57, "done": 56, ...}
//   {"number": 901, "channel": 2, "kind": "all_gather", "label": "forward layers.3.attn", ...}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/recorder.hpp"

namespace weft::watch {

/// What comm::RecordedCall says, with times that ranks have in common: seconds since 1970; 0: not yet.
struct Call {
  std::uint64_t number = 0;
  std::size_t channel = 0;  ///< index into RankRecords::channels
  std::string kind;
  std::int64_t bytes = 0;
  int peer = -1;
  bool collective = true;
  std::uint64_t sequence = 0;
  bool host_waits = false;
  std::int64_t step = 0;
  std::string label;
  double enqueued = 0, started = 0, done = 0;
  bool operator==(const Call&) const = default;
};

struct RankRecords {
  int rank = 0;
  int ranks = 1;  ///< ranks of the run
  std::string host;
  double written = 0;  ///< when this was written; this and the next times are seconds since 1970
  std::string activity;
  std::int64_t step = 0;
  double since = 0;          ///< when the activity began
  double last = 0;           ///< when anything was last recorded
  std::string storage;       ///< "fsync of PATH": the system call that waits for storage; empty: none does
  double storage_since = 0;  ///< when that call began
  std::vector<comm::RecordedChannel> channels;
  std::vector<Call> calls;  ///< sorted by number
  bool operator==(const RankRecords&) const = default;
};

/// Reads the recorder, the waits for storage, and the clocks.
RankRecords records_of(const comm::Recorder& recorder, int rank, int ranks, const std::string& host);

/// The call that the rank waits for: of those that have started and are not done, the one that the host waits
/// for, or else the one that has waited longest. While the host waits for nothing, messages do not count: it
/// asks for them long before it needs them. Null when there is none, or when ends are not seen.
const Call* waits_for(const RankRecords& records);

/// Replaces a file as a whole (io::AtomicFile), without waiting for storage. Throws Error(environment) when
/// that fails.
void write_text(const std::string& path, const std::string& text);

/// The path of a rank's file: "DIR/rank-00003.jsonl".
std::string records_path(const std::string& dir, int rank);
/// Writes a rank's file by write_text().
void write_records(const std::string& dir, const RankRecords& records);
/// All ranks' records in `dir`, by rank. Ranks, channels and peers in them are within their lists. Throws
/// Error(bad_input) "FILE:LINE: ..." when a file is damaged, and Error(environment) when it cannot be read.
std::vector<RankRecords> read_records(const std::string& dir);

/// Writes the hosts of all ranks, a line for each. For ranks that leave no records they are known from there.
void write_hosts(const std::string& dir, const std::vector<std::string>& hosts);
/// Reads what write_hosts() has written; empty where there is no such file. Throws Error(environment) when it
/// cannot be read.
std::vector<std::string> read_hosts(const std::string& dir);

}  // namespace weft::watch
