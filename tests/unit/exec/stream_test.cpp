// Tests two streams in one graph; it is built for CUDA only.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "comm/nccl/stream_graph.hpp"
#include "comm/nccl/stream_timeline.hpp"
#include "kernels/memory.hpp"
#include "support/kokkos_environment.hpp"

namespace weft {
namespace {

using comm::Event;
using kernels::Buffer;
using kernels::Space;

TEST(StreamGraph, RepeatsWhatTwoStreamsDoInTurn) {
  constexpr std::size_t bytes = std::size_t{8} << 20;
  Space compute, side;
  const Buffer a(bytes, "a"), b(bytes, "b"), c(bytes, "c");
  comm::StreamTimeline main(native_stream(compute), comm::Timing::off), lane(native_stream(side));

  comm::StreamGraph::begin(main.stream());
  main.begin_capture();
  main.begin();
  const Event fork = main.end();
  lane.begin_capture();
  lane.wait({&fork, 1});
  lane.begin();
  copy(side, b.data(), a.data(), bytes);
  const Event copied = lane.end();
  main.wait({&copied, 1});
  copy(compute, c.data(), b.data(), bytes);
  const comm::StreamTimeline::Intervals intervals = lane.end_capture();
  main.end_capture();
  comm::StreamGraph graph(main.stream());

  double busy = lane.busy_seconds();
  EXPECT_EQ(busy, 0.0);
  for (const unsigned char value : {1, 2, 3}) {
    std::vector<unsigned char> host(bytes, value);
    copy_to_device(compute, a.data(), host.data(), bytes);
    graph.launch();
    fence(compute);
    copy_to_host(compute, host.data(), c.data(), bytes);
    EXPECT_EQ(host, std::vector<unsigned char>(bytes, value));
    lane.count(intervals);
    EXPECT_GT(lane.busy_seconds(), busy);
    busy = lane.busy_seconds();
  }

  // What is not captured goes on as if there had been no capture.
  EXPECT_EQ(lane.last(), 0u);
  lane.begin();
  const Event after = lane.end();
  EXPECT_EQ(after.value, 1u);
  comm::sync(after);
  EXPECT_TRUE(comm::done(after));
}

}  // namespace
}  // namespace weft
