#include "plan/picture.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "plan/offsets.hpp"
#include "plan/picture_blocks.hpp"
#include "plan/report.hpp"
#include "plan/simulate.hpp"
#include "small_model.hpp"

namespace weft::plan {
namespace {

using test::SmallModel;

constexpr Lane compute = Lane::compute;

machine::CostModel costs() {
  return machine::CostModel(default_profile(machine::DefaultProfile::host));
}

Plan small_plan(int ranks = 2, int layers = 2, int rounds = 2) {
  SmallModel m;
  m.spec.layers = layers;
  m.ranks = ranks;
  m.rounds = rounds;
  return lower(m.step(), test::test_scratch);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

/// What is wrong with the text as XML: elements that do not nest, attributes without quotes, a bare & or <.
std::string xml_error(const std::string& text) {
  std::vector<std::string> open;
  std::size_t at = 0;
  while (true) {
    const auto begin = text.find('<', at);
    const std::string between = text.substr(at, begin == std::string::npos ? begin : begin - at);
    for (auto a = between.find('&'); a != std::string::npos; a = between.find('&', a + 1))
      if (between.find(';', a) > a + 5) return "a bare & in " + between;
    if (begin == std::string::npos) break;
    const auto end = text.find('>', begin);
    if (end == std::string::npos) return "an open tag at the end";
    std::string tag = text.substr(begin + 1, end - begin - 1);
    at = end + 1;
    if (tag.find('<') != std::string::npos) return "a bare < in " + tag;
    if (std::count(tag.begin(), tag.end(), '"') != 2 * std::count(tag.begin(), tag.end(), '='))
      return "an attribute without quotes in " + tag;
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return tag + " closes nothing";
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

std::string shown(const std::string& text) {
  return std::string(">").append(text).append("</text>");
}

TEST(Picture, IsXmlWithThreeLanesAndTheHolders) {
  const Plan plan = small_plan();
  const machine::LaneTimes times = simulate(plan, costs());
  const std::string svg = picture(plan, times, "a <deck> & more");
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"")) << svg.substr(0, 100);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("a &lt;deck&gt; &amp; more on 2 ranks: step "), std::string::npos);
  EXPECT_EQ(count(svg, "<g id=\"lane-"), 3U);
  for (const char* part :
       {"id=\"lane-compute\"", "id=\"lane-gather\"", "id=\"lane-reduce\"", "<circle id=\"peak\"",
        "backward layers.1.attn", "all_gather layers.0.ffn", "reduce_scatter embed"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  const std::vector<Holder> held = holders_at(plan, live_peak_place(plan.buffers));
  ASSERT_GE(held.size(), 6U);
  const std::string holders = svg.substr(svg.find("id=\"holders\""));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NE(holders.find(shown(held[i].name)), std::string::npos) << held[i].name;
    EXPECT_NE(holders.find(shown(bytes_text(held[i].bytes))), std::string::npos);
  }
  EXPECT_EQ(count(holders, "</text>"), 1U + 2 * 5);
}

TEST(Picture, OfOneRankHasEmptyLanes) {
  const Plan plan = small_plan(1);
  const std::string svg = picture(plan, simulate(plan, costs()), "alone");
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_NE(svg.find("alone on 1 rank: "), std::string::npos);
  const auto gather = svg.find("id=\"lane-gather\"");
  EXPECT_EQ(count(svg.substr(gather, svg.find("</g>", gather) - gather), "<title>"), 0U);
  EXPECT_EQ(svg.find("waits "), std::string::npos);
}

TEST(Picture, SumsOverReplicasHaveALane) {
  SmallModel m;
  m.replicas = 2;
  const Plan plan = lower(m.step(), test::test_scratch);
  const std::string svg = picture(plan, simulate(plan, costs()), "replicas");
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_EQ(count(svg, "<g id=\"lane-"), 4U);
  const auto replica = svg.find("id=\"lane-replica\"");
  EXPECT_GT(count(svg.substr(replica, svg.find("</g>", replica) - replica), "all_reduce"), 0U);
  EXPECT_NE(svg.find(", replica "), std::string::npos) << "seconds that it is busy";
}

/// Each lane of a pipe and of a tensor axis has a row, and no two rows stand at one place.
TEST(Picture, StagesAndTensorHaveLanes) {
  SmallModel m;
  m.spec.heads = 4;
  m.spec.kv_heads = 2;  // on four ranks: neighbours have the same
  m.pipe = 2;
  m.tensor = 4;
  m.rounds = 2;
  m.options.partition = true;
  m.options.stage = passes::StageOptions{};
  m.options.stage->kind = PipelineKind::one_f_one_b;
  m.options.stage->sizes = {2, 1, 2};
  m.options.stage->first_units = {0, 2};
  const Plan plan = lower(m.step(), test::test_scratch);
  const machine::LaneTimes times = simulate(plan, costs());
  const std::string svg = picture(plan, times, "mesh");
  EXPECT_EQ(xml_error(svg), "");
  std::set<std::string> tops;
  std::size_t rows = 0;
  for (const Lane lane : all_lanes) {
    const auto begin = svg.find(fmt::format("id=\"lane-{}\"", name_of(lane)));
    EXPECT_EQ(begin != std::string::npos, lane <= Lane::reduce || !times.spans[lane].empty())
        << name_of(lane);
    if (begin == std::string::npos) continue;
    ++rows;
    const auto top = svg.find(" y=\"", begin);
    tops.insert(svg.substr(top, svg.find("width", top) - top));
  }
  EXPECT_EQ(tops.size(), rows);
  for (const char* part :
       {"lane-tensor", "lane-copies", "lane-to_next", "lane-from_next", ", tensor ", ", stages "})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
}

TEST(Picture, OfALargePlanStaysSmall) {
  const Plan plan = small_plan(8, 96, 8);
  ASSERT_GT(plan.instructions.size(), 20'000U);
  const machine::LaneTimes times = simulate(plan, costs());
  const std::string svg = picture(plan, times, "large");
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_LT(svg.size(), 500'000U);
  EXPECT_LT(count(svg, "<rect"), 4'000U);
  EXPECT_GT(count(svg, "<rect"), 300U);
}

/// Merging blocks loses no instruction, byte or moment.
TEST(PictureBlocks, AddUp) {
  const Plan plan = small_plan();
  const machine::LaneTimes times = simulate(plan, costs());
  for (const double shortest : {0.0, times.end / 100, 2 * times.end}) {
    std::int64_t sent = 0;
    for (const Lane lane : {Lane::compute, Lane::gather, Lane::reduce}) {
      std::int64_t instructions = 0, bytes = 0;
      double at = 0;
      for (const Block& b : blocks_of(plan, times, lane, shortest)) {
        EXPECT_GE(b.start, at);
        EXPECT_GE(b.end, b.start);
        at = b.end;
        instructions += b.instructions;
        bytes += b.bytes;
      }
      EXPECT_EQ(instructions, times.spans[lane].size());
      EXPECT_LE(at, times.end);
      sent += bytes;
    }
    for (const auto& [name, total] : collective_totals(plan)) sent -= total.wire_bytes;
    EXPECT_EQ(sent, 0);
  }
  EXPECT_EQ(blocks_of(plan, times, Lane::compute, 2 * times.end).size(), 1U);
  const auto by_module = blocks_of(plan, times, Lane::compute, 0);
  EXPECT_LT(by_module.size(), times.spans[compute].size());
  for (const Block& b : by_module) EXPECT_EQ(b.first, b.last);
}

TEST(PictureBlocks, WaitsAreWhatIsExposed) {
  const Plan plan = small_plan();
  const machine::LaneTimes times = simulate(plan, costs());
  double exposed = 0, waited = 0;
  for (const double seconds : times.exposed) exposed += seconds;
  for (const Stretch& s : waiting_of(plan, times, 0)) {
    waited += s.waited;
    EXPECT_NEAR(s.waited, s.end - s.start, 1e-12);
    EXPECT_NE(s.lane, Lane::compute);
  }
  EXPECT_GT(exposed, 0);
  EXPECT_NEAR(waited, exposed, 1e-9);
}

TEST(PictureBlocks, TheCurveReachesThePeakAndNoMore) {
  for (const int ranks : {1, 2}) {
    const Plan plan = small_plan(ranks);
    const machine::LaneTimes times = simulate(plan, costs());
    const auto live = live_bytes_over_time(plan, times, 200);
    ASSERT_EQ(live.size(), 200U);
    const auto most = std::max_element(live.begin(), live.end());
    EXPECT_EQ(*most, plan.live_bytes);
    const auto place = static_cast<std::size_t>(live_peak_place(plan.buffers));
    const double peak = times_of_places(plan, times)[place];
    EXPECT_NEAR(static_cast<double>(most - live.begin()) / 200, peak / times.end, 1.0 / 200);
  }
}

/// The table of `weft plan` has each figure in its own row, and rows of other axes only where they have some.
TEST(Timeline, HasARowForEachFigure) {
  machine::LaneTimes times;
  times.end = 10;
  times.busy[Lane::compute] = 7;
  times.busy[Lane::gather] = 3;
  times.busy[Lane::reduce] = 4;
  times.exposed[Lane::gather] = 1.5;
  times.exposed[Lane::reduce] = 2.5;
  const auto rows = [&] {
    std::map<std::string, double> found;
    std::istringstream text(plan::timeline_text(times));
    for (std::string line; std::getline(text, line);)
      if (line.starts_with("  ")) {
        const std::size_t end = line.find("  ", 2), number = line.find_first_not_of(' ', end);
        found[line.substr(2, end - 2)] = std::stod(line.substr(number));
      }
    return found;
  };
  std::map<std::string, double> expected{{"step", 10},
                                         {"compute lane busy", 7},
                                         {"gather lane busy", 3},
                                         {"reduce lane busy", 4},
                                         {"exposed gathers", 1.5},
                                         {"exposed reductions", 2.5}};
  EXPECT_EQ(rows(), expected);
  times.busy[Lane::replica] = 0.25;
  times.exposed[Lane::replica] = 0.125;
  expected["replica lane busy"] = 0.25;
  expected["exposed sums over replicas"] = 0.125;
  EXPECT_EQ(rows(), expected);
}

}  // namespace
}  // namespace weft::plan
