#include "train/run_trace.hpp"

#include "base/lane.hpp"

namespace weft::train {

void RunTrace::start(const plan::Plan& plan, std::int64_t step) {
  trace_ = exec::Trace(exec::spans_of(plan), {"host"});
  trace_.set_step(step);
  world_.barrier();
  trace_.set_origin(exec::Trace::now_ns());
}

exec::TraceScope RunTrace::scope(const char* name) {
  constexpr exec::TraceRow host_row(lane_count);  // the row behind those of the lanes
  return {trace_, host_row, {.name = name, .category = "host"}};
}

void RunTrace::write() {
  if (!trace_.on()) return;
  exec::write_trace(path_, world_, trace_.events(world_.rank(), world_.host()));
  trace_ = {};
}

}  // namespace weft::train
