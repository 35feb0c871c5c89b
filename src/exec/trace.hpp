// A trace says what each lane did when, as a file that Perfetto and chrome://tracing open.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "base/per_lane.hpp"
#include "plan/plan.hpp"

namespace weft::comm {
class World;
}

namespace weft::exec {

/// A row of the trace. Rows 0 to lane_count - 1 are the lanes; a trace may have more (what the host does
/// between plans).
using TraceRow = Id<struct TraceRowTag>;
constexpr TraceRow row_of(Lane lane) {
  return TraceRow(static_cast<std::size_t>(lane));
}

/// Something that took time on a row. The strings are not copied: they must live as long as the trace (those
/// of the plan do).
struct Span {
  std::string_view name = {};      ///< the operation: "matmul", "all_gather"
  std::string_view category = {};  ///< "forward", "backward", "update", "comm": Perfetto filters by it
  std::string_view path = {};      ///< module path; no argument when empty
  std::string_view phase = {};     ///< no argument when empty
  std::string_view value = {};     ///< what a collective makes; no argument when empty
  std::int64_t start_ns = 0;       ///< start by the clock of Trace::now_ns()
  std::int64_t end_ns = 0;
  /// Sent by this rank, or the least that a kernel moves; no argument when negative.
  std::int64_t bytes = -1;
  std::int64_t flops = -1;  ///< floating-point operations of a kernel's products; no argument when negative
  /// A number that collectives which run as one have in common; no argument when negative.
  std::int64_t bucket = -1;
  std::int64_t microbatch = -1;  ///< of the step; no argument when negative
  std::int64_t chunk = -1;       ///< which of the rank's stages of a pipe; no argument when negative
};

/// Collects spans in buffers made up front: record() neither allocates nor locks. Each row is recorded by one
/// thread; any thread may serialise meanwhile, and sees what was recorded before. A default-made trace is
/// off: record() is one branch.
class Trace {
 public:
  Trace() = default;
  /// Makes a row for each lane, and behind them those of `more_rows`. A span takes sizeof(Span) bytes.
  explicit Trace(std::size_t spans_per_row, const std::vector<std::string>& more_rows = {});
  /// Makes rows for as many spans of each lane. A lane without any has no row in the file.
  Trace(const PerLane<std::size_t>& spans_of_lanes, const std::vector<std::string>& more_rows);

  bool on() const { return !rows_.empty(); }
  /// Records a span. A full row drops and counts it: a trace shows a run's first steps rather than slowing
  /// down the last ones.
  void record(TraceRow row, const Span& span) noexcept {
    if (on()) rows_[row.index()]->record(span);
  }
  void record(Lane lane, const Span& span) noexcept { record(row_of(lane), span); }
  std::int64_t dropped() const;
  /// The spans that a lane has recorded, in order. Do not call it while the lane records.
  std::span<const Span> spans(Lane lane) const {
    const Row& row = *rows_[row_of(lane).index()];
    return {row.spans.data(), row.count.load(std::memory_order_acquire)};
  }

  /// The clock of spans, CLOCK_MONOTONIC: the same for all ranks of a host.
  static std::int64_t now_ns() noexcept;
  /// Sets the trace's time 0. Ranks of several hosts have clocks of their own: let each call this with
  /// now_ns() right after a barrier. Rows of different ranks then agree as well as the ranks left the barrier
  /// together (microseconds).
  void set_origin(std::int64_t ns) { origin_ns_ = ns; }

  /// Sets the step of all spans; no argument when negative.
  void set_step(std::int64_t step) { step_ = step; }

  /// This rank's spans as JSON objects separated by commas: process "rank R (host)" (pid R), a thread a row
  /// (tid its index). Where spans are of a pipe's stages, a last row "schedule" shows its actions.
  std::string events(int rank, std::string_view host) const;

 private:
  std::string schedule_events(int rank) const;

  struct alignas(64) Row {  // different threads write the rows: they must not share cache lines
    Row(std::string row_name, std::size_t capacity) : name(std::move(row_name)), spans(capacity) {}
    void record(const Span& span) noexcept {
      const auto n = count.load(std::memory_order_relaxed);
      if (n < spans.size()) {
        spans[n] = span;
        count.store(n + 1, std::memory_order_release);
      } else {
        dropped.fetch_add(1, std::memory_order_relaxed);
      }
    }

    std::string name;
    std::vector<Span> spans;
    std::atomic<std::size_t> count{0};
    std::atomic<std::int64_t> dropped{0};
  };

  std::vector<std::unique_ptr<Row>> rows_;
  std::int64_t origin_ns_ = 0;
  std::int64_t step_ = -1;
};

/// How many spans one run of a plan records on each lane.
PerLane<std::size_t> spans_of(const plan::Plan& plan);

/// Records the time from its making to its end. It looks at no clock when the trace is off.
class TraceScope {
 public:
  TraceScope(Trace& trace, TraceRow row, const Span& span) : trace_(trace), row_(row), span_(span) {
    if (trace_.on()) span_.start_ns = Trace::now_ns();
  }
  ~TraceScope() {
    if (!trace_.on()) return;
    span_.end_ns = Trace::now_ns();
    trace_.record(row_, span_);
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  Trace& trace_;
  TraceRow row_;
  Span span_;
};

/// The most bytes of other ranks' events that rank 0 asks for at once, unless one rank has more.
constexpr std::int64_t trace_bytes_at_once = std::int64_t{256} << 20;

/// Collective: rank 0 writes one trace.json of all ranks' events(), in the order of ranks. Some ranks at a
/// time send theirs, and no rank does so before it is asked: rank 0's memory does not grow with the number of
/// ranks. When the file cannot be written, rank 0 logs a warning and returns false, because a trace is not
/// worth a run. The others return true.
bool write_trace(const std::string& path, comm::World& world, const std::string& events,
                 std::int64_t bytes_at_once = trace_bytes_at_once);

}  // namespace weft::exec
