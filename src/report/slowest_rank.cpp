#include "report/slowest_rank.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/device.hpp"

namespace weft::report {

StepMetrics slowest_rank(runtime::Session& session, const exec::Times& times, double step_seconds,
                         double compute_only_s, const MemoryBytes& memory, StepNews& news) {
  constexpr Lane gather = Lane::gather;
  constexpr Lane reduce = Lane::reduce;
  constexpr Lane replica = Lane::replica;
  // The host does not see a stream's waits: there the compute is that of the compute-only step.
  const bool waits_seen = device_is_host() || session.ranks() == 1;
  const auto all = [](const auto& lanes) { return std::accumulate(lanes.begin(), lanes.end(), 0.0); };
  const double exposed = session.ranks() > 1 ? std::max(0.0, times.step - compute_only_s) : 0.0;
  std::array<double, 22> most{step_seconds,
                              waits_seen ? times.step - all(times.exposed) : compute_only_s,
                              all(times.under_way),
                              exposed,
                              times.exposed[gather],
                              times.exposed[reduce],
                              times.exposed[replica],
                              times.under_way[gather],
                              times.under_way[reduce],
                              times.under_way[replica],
                              all(times.sent),
                              static_cast<double>(memory.resident),
                              static_cast<double>(memory.planned),
                              news.stop_request,
                              news.data_check,
                              news.data_left,
                              of_pipe_lanes(times.exposed),
                              of_pipe_lanes(times.under_way),
                              of_tensor_lanes(times.exposed),
                              of_tensor_lanes(times.under_way),
                              times.exposed[Lane::context],
                              times.under_way[Lane::context]};
  session.world().all_reduce_max(most);
  const bool replicas = session.replicas() > 1;
  StepMetrics m;
  m.step_s = most[0];
  m.compute_s = most[1];
  m.comm_s = most[2];
  m.exposed_comm_s = most[3];
  if (waits_seen) {
    m.exposed_gather_s = most[4];
    m.exposed_reduce_s = most[5];
    if (replicas) m.exposed_replica_s = most[6];
  }
  m.gather_s = most[7];
  m.reduce_s = most[8];
  if (replicas) m.replica_s = most[9];
  m.sent_bytes = static_cast<std::int64_t>(most[10]);
  m.rss_bytes = static_cast<std::int64_t>(most[11]);
  m.planned_bytes = static_cast<std::int64_t>(most[12]);
  news = {most[13], most[14], most[15]};
  if (session.mesh().size(pipe_axis) > 1) {
    if (waits_seen) m.exposed_pipe_s = most[16];
    m.pipe_s = most[17];
  }
  if (session.mesh().size(tensor_axis) > 1) {
    if (waits_seen) m.exposed_tensor_s = most[18];
    m.tensor_s = most[19];
  }
  if (session.mesh().size(context_axis) > 1) {
    if (waits_seen) m.exposed_context_s = most[20];
    m.context_s = most[21];
  }
  return m;
}

}  // namespace weft::report
