#include "exec/capture.hpp"
#include "base/device.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "comm/world.hpp"
#include "exec/compute_lane.hpp"
#include "support/kokkos_environment.hpp"

namespace weft::exec {
namespace {

plan::Plan plan_of(std::initializer_list<Lane> lanes) {
  plan::Plan plan;
  for (const Lane lane : lanes) {
    plan::Instruction instruction;
    instruction.lane = lane;
    plan.instructions.push_back(std::move(instruction));
  }
  return plan;
}

CaptureMeans on_stream(std::initializer_list<Lane> channels) {
  CaptureMeans means;
  means.on_stream = true;
  for (const Lane lane : channels) means.channels[lane] = true;
  return means;
}

TEST(Capture, WantsAllCollectivesOnStreams) {
  const auto decide = [](const plan::Plan& plan, const CaptureMeans& means) {
    return capture_of(plan, means, CudaGraph::automatic);
  };
  const plan::Plan alone = plan_of({Lane::compute, Lane::compute});
  const plan::Plan sharded = plan_of({Lane::gather, Lane::compute, Lane::reduce});
  const plan::Plan replicated = plan_of({Lane::gather, Lane::compute, Lane::reduce, Lane::replica});
  EXPECT_EQ(decide(alone, on_stream({})), Capture::captured);
  EXPECT_EQ(decide(sharded, on_stream({Lane::gather, Lane::reduce})), Capture::captured);
  EXPECT_EQ(decide(replicated, on_stream({Lane::gather, Lane::reduce, Lane::replica})), Capture::captured);
  EXPECT_EQ(decide(sharded, on_stream({})), Capture::host_collectives);
  EXPECT_EQ(decide(replicated, on_stream({Lane::gather, Lane::reduce})), Capture::host_collectives);
  // A channel that the plan does not use does not matter.
  EXPECT_EQ(decide(plan_of({Lane::gather, Lane::compute}), on_stream({Lane::gather})), Capture::captured);
}

TEST(Capture, HostKernelsAndTheDeckSayNo) {
  const plan::Plan alone = plan_of({Lane::compute});
  EXPECT_EQ(capture_of(alone, {}, CudaGraph::automatic), Capture::host_kernels);
  EXPECT_EQ(capture_of(alone, on_stream({}), CudaGraph::off), Capture::unwanted);
  EXPECT_EQ(capture_of(alone, {}, CudaGraph::off), Capture::unwanted);
}

TEST(Capture, LanesRefuseWhatTheySayTheyCannot) {
  kernels::Space space;
  ComputeLane lane(space);
  EXPECT_EQ(ComputeLane::capturable(), !device_is_host());
  const auto world = comm::make_self_world();
  const auto channel = world->open({0}, Lane::gather, "test");
  EXPECT_FALSE(channel->capturable());
  EXPECT_THROW(channel->begin_capture({}), std::logic_error);
  EXPECT_THROW(channel->end_capture(), std::logic_error);
  if (ComputeLane::capturable()) return;
  EXPECT_THROW(lane.begin_capture(), std::logic_error);
  EXPECT_THROW(lane.end_capture(), std::logic_error);
}

}  // namespace
}  // namespace weft::exec
