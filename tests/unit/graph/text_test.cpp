#include <gtest/gtest.h>

#include <functional>

#include "base/check.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "ops/verify.hpp"
#include "passes/pass_list.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

TEST(GraphText, ParsesWhatItPrints) {
  for (const auto mode : test::all_modes)
    for (const DType params : {DType::f32, DType::bf16}) {
      test::SmallModel m;
      m.options.shard.mode = mode;
      m.options.precision.params = params;
      m.rounds = 2;
      const std::string text = ir::print(m.step());
      const ir::Graph parsed = ir::parse(text);
      EXPECT_EQ(ir::print(parsed), text);
      EXPECT_NO_THROW(ir::verify(parsed));
      EXPECT_NO_THROW(ops::verify_types(parsed));
    }
}

TEST(GraphText, EveryBrokenLineIsOneLine) {
  const std::string text = ir::print(test::SmallModel{}.step());
  const std::size_t node = text.find("forward r0");
  const std::pair<std::string, std::string> edits[] = {
      {"= all_gather(", "= all_gathr("}, {"{S0}", "{Q0}"},     {"axis=0", "axes=0"}, {"f32[", "f33["},
      {"(tokens.0", "(token.0"},         {"compute", "compte"}};
  for (const auto& [from, to] : edits) {
    std::string broken = text;
    const std::size_t at = broken.find(from, node);
    ASSERT_NE(at, std::string::npos) << from;
    broken.replace(at, from.size(), to);
    try {
      ir::parse(broken);
      ADD_FAILURE() << to << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    }
  }
}

TEST(GraphText, ANodeMayHaveNoModule) {
  const std::string text = "graph g\nmesh data=1\nforward r0 compute | x:f32[2] = zeros()\n";
  EXPECT_EQ(ir::print(ir::parse(text)), text);
}

std::string said_of(const std::string& text) {
  try {
    ir::verify(ir::parse("graph g\nmesh data=2\nunit u 8\n  u.a [8] 0\n" + text));
  } catch (const Error& e) {
    return e.what();
  } catch (const std::logic_error& e) {
    return std::string("verifier: ") + e.what();
  }
  return "nothing";
}

TEST(GraphText, NumbersThatCannotBeAreRefused) {
  EXPECT_EQ(said_of("storage s master f32[4294967296,4294967296]\n"),
            "graph text:5: a shape has too many elements");
  EXPECT_EQ(said_of("storage s master f32[9223372036854775807]\n"),
            "graph text:5: 9223372036854775807 is no number of elements");
  EXPECT_EQ(said_of("storage s master f32[4]{S1}\n"), "graph text:5: a cut along dimension 1 of 1");
  EXPECT_EQ(said_of("storage s master f32[4] x\n"),
            "graph text:5: text is left over at the line's end: ' x'");
  EXPECT_EQ(said_of("storage s master f32[4]\nstorage s master f32[4]\n"),
            "graph text:6: the graph has two storages named 's'");
  EXPECT_EQ(said_of("forward r0 compute m | x:f32[2] = zeros() eps=inf\n"),
            "graph text:5: inf is no attribute's value");
  const std::string unit = "forward r0 compute m | x:f32[8]u(u) = zeros()\n";
  EXPECT_EQ(said_of(unit + "forward r0 compute m | v:f32[2] = view() offset=0\n"),
            "verifier: graph g: node v = view: has no input");
  EXPECT_EQ(said_of(unit + "forward r0 compute m | v:f32[2] = view(x) offset=-1\n"),
            "verifier: graph g: node v = view: leaves its unit");
  EXPECT_EQ(said_of(unit + "forward r0 compute m | v:f32[2] = view(x) offset=1e300\n"),
            "verifier: the node's attribute offset is no integer");
  EXPECT_EQ(
      said_of("forward r0 compute m | y:f32[] = zeros()\nforward r0 compute m | j:f32[8]u(u) = join(y)\n"),
      "verifier: graph g: node j = join: 'y' has the wrong shape");
  EXPECT_THROW(ir::parse("graph g\nmesh data=65536 replica=65536\n"), Error);
  EXPECT_THROW(ir::parse("graph g\nmeshdata=1\n"), Error);
  EXPECT_THROW(ir::parse("graph g\nmesh data=1\nunit u 0\nunit u 0\n"), Error);
}

TEST(GraphText, TruncationNeverCrashes) {
  const std::string text = ir::print(test::SmallModel{}.step());
  int refused = 0, parsed = 0;
  for (std::size_t n = 0; n < text.size(); n += 97) {
    try {
      const ir::Graph graph = ir::parse(text.substr(0, n));
      EXPECT_EQ(ir::print(ir::parse(ir::print(graph))), ir::print(graph)) << "cut at " << n;
      ++parsed;
    } catch (const Error& e) {
      EXPECT_TRUE(std::string(e.what()).starts_with("graph text:")) << e.what();
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 100) << "a line is cut nearly everywhere";
  EXPECT_LT(parsed, refused);
}

TEST(GraphText, DiffShowsWhatAPassMoves) {
  test::SmallModel m;
  std::string difference;
  m.step([&](const passes::Pass& pass, const ir::Graph& before, const ir::Graph& after) {
    if (pass.name == "order") difference = ir::diff(ir::print(before), ir::print(after));
  });
  EXPECT_NE(difference.find("all_gather"), std::string::npos);
  EXPECT_EQ(difference.find("= matmul("), std::string::npos) << "the order pass moves gathers only:\n"
                                                             << difference;
  EXPECT_EQ(ir::diff("a\nb\n", "a\nb\n"), "");
  EXPECT_EQ(ir::diff("a\na\n", "a\na\n"), "");
  EXPECT_EQ(ir::diff("a\nb\nc\n", "a\nd\nc\n"), "- b\n+ d\n1 lines removed, 1 added\n");
}

TEST(Verifier, NamesTheNodeThatIsWrong) {
  const ir::Graph good = test::SmallModel{}.step();
  ir::Graph reversed = good.without_nodes();
  std::vector<ir::Node> nodes = good.nodes();
  std::swap(nodes[nodes.size() / 2], nodes[nodes.size() / 2 + 1]);
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) reversed.add_node(*node);
  EXPECT_THROW(ir::verify(reversed), std::logic_error);

  ir::Graph wrong_lane = good.without_nodes();
  for (ir::Node node : good.nodes()) {
    if (node.op == ir::Op::all_gather) node.lane = Lane::compute;
    wrong_lane.add_node(node);
  }
  EXPECT_THROW(ir::verify(wrong_lane), std::logic_error);

  ir::Graph wrong_type = good;
  wrong_type.value(wrong_type.find_value("layers.0.attn.q_k_v")).type.shape.back() += 1;
  EXPECT_THROW(ops::verify_types(wrong_type), std::logic_error);
}

TEST(Verifier, LooksAtWhatPassesLeave) {
  const ir::Graph good = test::SmallModel{}.step();
  const auto left = [&](const std::function<void(ir::Graph&)>& damage) {
    return passes::run({{"damage", passes::Bits::exact,
                         [&](const ir::Graph& g) {
                           ir::Graph after = g;
                           damage(after);
                           return after;
                         }}},
                       good);
  };
  EXPECT_NO_THROW(left([](ir::Graph&) {}));
  EXPECT_THROW(left([](ir::Graph& g) {  // the order
                 std::vector<ir::Node> nodes = g.nodes();
                 g = g.without_nodes();
                 for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) g.add_node(*node);
               }),
               std::logic_error);
  EXPECT_THROW(left([](ir::Graph& g) {  // a type
                 g.value(g.find_value("layers.0.attn.q_k_v")).type.shape.back() += 1;
               }),
               std::logic_error);
}

TEST(Verifier, RefusesAStaleVersionOfAStorage) {
  const ir::Graph good = test::SmallModel{}.step();
  ir::Graph stale = good.without_nodes();
  ir::Node late;
  for (const ir::Node& node : good.nodes()) {
    // This gather reads a master before its update.
    if (node.op == ir::Op::all_gather && node.phase == ir::Phase::forward) late = node;
    stale.add_node(node);
  }
  ir::Value copy = stale.value(late.outputs[0]);
  late.outputs = {stale.add_value(copy)};
  stale.add_node(late);
  EXPECT_THROW(ir::verify(stale), std::logic_error);
}

}  // namespace
}  // namespace weft
