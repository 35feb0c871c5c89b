#include "exec/trace.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <set>
#include <tuple>

#include "base/check.hpp"
#include "base/log.hpp"
#include "comm/world.hpp"
#include "exec/shapes.hpp"
#include "io/atomic_file.hpp"
#include "pipe/pipeline_schedule.hpp"

namespace weft::exec {
namespace {

/// The text as a JSON string, quotes included.
std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

/// Nanoseconds in the format's unit, microseconds, without rounding.
std::string microseconds(std::int64_t ns) {
  const std::uint64_t magnitude =
      ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", magnitude / 1000, magnitude % 1000);
}

/// A metadata event, which gives processes and threads their names and order.
std::string metadata(std::string_view name, int pid, std::size_t tid, const std::string& args) {
  return fmt::format(R"({{"ph": "M", "name": "{}", "pid": {}, "tid": {}, "args": {{{}}}}})", name, pid, tid,
                     args);
}

/// The name and the place of a row.
std::string row_name(int rank, std::size_t tid, std::string_view name) {
  return ",\n" + metadata("thread_name", rank, tid, "\"name\": " + json_string(name)) + ",\n" +
         metadata("thread_sort_index", rank, tid, fmt::format("\"sort_index\": {}", tid));
}

std::string span_event(const Span& span, int pid, std::size_t tid, std::int64_t origin_ns,
                       std::int64_t step) {
  std::string args;
  const auto add = [&](std::string_view key, const std::string& value) {
    args += fmt::format("{}\"{}\": {}", args.empty() ? "" : ", ", key, value);
  };
  if (!span.path.empty()) add("path", json_string(span.path));
  if (!span.phase.empty()) add("phase", json_string(span.phase));
  if (!span.value.empty()) add("value", json_string(span.value));
  if (span.bytes >= 0) add("bytes", fmt::format("{}", span.bytes));
  if (span.flops >= 0) add("flops", fmt::format("{}", span.flops));
  if (span.bucket >= 0) add("bucket", fmt::format("{}", span.bucket));
  if (span.microbatch >= 0) add("microbatch", fmt::format("{}", span.microbatch));
  if (span.chunk >= 0) add("chunk", fmt::format("{}", span.chunk));
  if (step >= 0) add("step", fmt::format("{}", step));
  return fmt::format(
      R"({{"ph": "X", "name": {}, "cat": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})",
      json_string(span.name), json_string(span.category), pid, tid, microseconds(span.start_ns - origin_ns),
      microseconds(span.end_ns - span.start_ns), args);
}

/// An action of a pipe's schedule, and when it ran.
struct PastAction {
  pipe::Action action;
  std::int64_t start_ns = 0, end_ns = 0;
};

/// The actions that kernels belong to: neighbours of one microbatch, stage and direction are of one. What
/// comes of a backward after something else are the weight gradients that were put off.
std::vector<PastAction> actions_of(std::span<const Span> kernels) {
  using Key = std::tuple<std::int64_t, std::int64_t, bool>;
  std::vector<PastAction> list;
  std::set<Key> begun;
  Key last;
  for (const Span& kernel : kernels) {
    if (kernel.chunk < 0 || (kernel.category != "forward" && kernel.category != "backward")) continue;
    const bool forward = kernel.category == "forward";
    const Key key(kernel.microbatch, kernel.chunk, forward);
    if (list.empty() || key != last) {
      const bool again = !begun.insert(key).second;
      const pipe::Work work = forward ? pipe::Work::forward
                              : again ? pipe::Work::weight_grad
                                      : pipe::Work::backward;
      list.push_back(
          {{work, static_cast<int>(kernel.microbatch), static_cast<int>(kernel.chunk)}, kernel.start_ns, 0});
    }
    last = key;
    list.back().end_ns = kernel.end_ns;
  }
  return list;
}

PerLane<std::size_t> on_all_lanes(std::size_t spans) {
  PerLane<std::size_t> list;
  list.values.fill(spans);
  return list;
}

/// The file of a trace, as rank 0 writes it. When a call fails, the file is lost: there is one warning, and
/// what follows is dropped, so that the other ranks can go on.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) {
    unless_lost([&] {
      file_.emplace(path, io::Named::by_weft);
      put("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
    });
  }

  /// Appends the events of the next rank.
  void append(std::string_view events) {
    if (!file_) return;
    unless_lost([&] {
      if (!is_first_) put(",\n");
      put(events);
    });
    is_first_ = false;
  }

  /// Gives the file its name. Returns whether all of it was written.
  bool commit() {
    if (!file_) return false;
    unless_lost([&] {
      put("\n]}\n");
      file_->commit(io::Sync::no);  // the run does not stop for a trace
    });
    return file_.has_value();
  }

 private:
  void put(std::string_view text) { file_->append(text.data(), text.size()); }

  template <class Write>
  void unless_lost(Write&& write) {
    try {
      write();
    } catch (const Error& e) {
      file_.reset();
      log::warn("the trace is lost: {}; the run itself is not affected", e.what());
    }
  }

  std::optional<io::AtomicFile> file_;  ///< none: it is lost
  bool is_first_ = true;
};

/// Collective: how many ranks' events have `bytes` together at most, the longest taken for all; at least one.
int ranks_at_once(comm::World& world, const std::string& events, std::int64_t bytes) {
  auto longest = static_cast<double>(events.size());
  world.all_reduce_max(std::span(&longest, 1));
  const auto fitting = bytes / std::max<std::int64_t>(1, static_cast<std::int64_t>(longest));
  return static_cast<int>(std::clamp<std::int64_t>(fitting, 1, world.size()));
}

}  // namespace

Trace::Trace(std::size_t spans_per_row, const std::vector<std::string>& more_rows)
    : Trace(on_all_lanes(spans_per_row), more_rows) {}

Trace::Trace(const PerLane<std::size_t>& spans_of_lanes, const std::vector<std::string>& more_rows) {
  constexpr std::size_t in_other_rows = 64;
  for (const Lane lane : all_lanes)
    rows_.push_back(std::make_unique<Row>(std::string(name_of(lane)), spans_of_lanes[lane]));
  for (const auto& name : more_rows) rows_.push_back(std::make_unique<Row>(name, in_other_rows));
}

PerLane<std::size_t> spans_of(const plan::Plan& plan) {
  PerLane<std::size_t> spans{};
  for (const plan::Instruction& i : plan.instructions)
    spans[i.lane] += i.lane == Lane::compute ? 1 : calls_of(plan.graph, plan.graph.node(i.node));
  return spans;
}

std::int64_t Trace::dropped() const {
  std::int64_t sum = 0;
  for (const auto& row : rows_) sum += row->dropped.load(std::memory_order_relaxed);
  return sum;
}

std::int64_t Trace::now_ns() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

std::string Trace::events(int rank, std::string_view host) const {
  const std::string process = json_string(fmt::format("rank {} ({})", rank, host));
  std::string out = metadata("process_name", rank, 0, "\"name\": " + process);
  out += ",\n" + metadata("process_sort_index", rank, 0, fmt::format("\"sort_index\": {}", rank));
  for (std::size_t tid = 0; tid < rows_.size(); ++tid) {
    const Row& row = *rows_[tid];
    if (row.spans.empty()) continue;
    const auto dropped = row.dropped.load(std::memory_order_relaxed);
    const std::string name =
        dropped == 0 ? row.name : fmt::format("{} ({} spans dropped)", row.name, dropped);
    out += row_name(rank, tid, name);
    const auto count = row.count.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i)
      out += ",\n" + span_event(row.spans[i], rank, tid, origin_ns_, step_);
  }
  return out + schedule_events(rank);
}

std::string Trace::schedule_events(int rank) const {
  if (!on()) return {};
  const std::vector<PastAction> actions = actions_of(spans(Lane::compute));
  if (actions.empty()) return {};
  const std::size_t tid = rows_.size();
  std::string out = row_name(rank, tid, "schedule");
  for (const PastAction& past : actions) {
    const std::string name = pipe::short_name(past.action);
    Span span{name, "schedule"};
    span.start_ns = past.start_ns;
    span.end_ns = past.end_ns;
    span.microbatch = past.action.microbatch;
    span.chunk = past.action.chunk;
    out += ",\n" + span_event(span, rank, tid, origin_ns_, step_);
  }
  return out;
}

bool write_trace(const std::string& path, comm::World& world, const std::string& events,
                 std::int64_t bytes_at_once) {
  const int size = world.size(), rank = world.rank(), at_once = ranks_at_once(world, events, bytes_at_once);
  std::optional<TraceFile> file;
  if (rank == 0) file.emplace(path);
  const std::string nothing;
  for (int first = 0; first < size; first += at_once) {
    const int end = std::min(first + at_once, size);
    const bool own_turn = first <= rank && rank < end;
    const std::vector<std::string> all = world.gather_strings(own_turn ? events : nothing);
    for (int r = first; file && r < end; ++r) file->append(all[static_cast<std::size_t>(r)]);
  }
  return !file || file->commit();
}

}  // namespace weft::exec
