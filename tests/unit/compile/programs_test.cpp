// Tests what a deck becomes before it is planned.
#include "compile/programs.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "../graph/small_model.hpp"
#include "base/check.hpp"
#include "compile/machine_profile.hpp"
#include "compile/scheduling.hpp"
#include "compile/teams.hpp"
#include "support/small_deck.hpp"

namespace weft::compile {
namespace {

/// How many units are in Float8 counts in estimates of memory and time.
TEST(Programs, AUnitThatTwoPatternsNameIsInFloat8Once) {
  const Deck deck = test::small_deck({"model.layers=4", "precision.params=bf16",
                                      R"(precision.float8=["layers.0-2", "layers.2.ffn", "layers.*"])"});
  EXPECT_EQ(spec_of(deck).float8,
            (std::vector<std::string>{"layers.0.attn", "layers.0.ffn", "layers.1.attn", "layers.1.ffn",
                                      "layers.2.attn", "layers.2.ffn"}));
}

/// All machines that Weft ships are asked. Some of them have products with one scale a matrix alone.
TEST(Programs, AMachineThatDecodesFloat8IsNamed) {
  int none = 0, one_scale = 0, all = 0;
  for (const std::string& name : machine::shipped_machine_names()) {
    SCOPED_TRACE(name);
    const machine::Profile profile = *machine::shipped_machine(name);
    const auto text = [&](const std::vector<std::string>& sets) {
      std::vector<std::string> with{"precision.params=bf16"};
      with.insert(with.end(), sets.begin(), sets.end());
      return float8_text(test::small_deck(with), profile);
    };
    const std::string rowwise = text({R"(precision.float8=["layers.0-1"])"});
    const std::string tensorwise =
        text({R"(precision.float8=["layers.0-1"])", "precision.float8_scales=tensorwise"});
    EXPECT_EQ(text({}), "");
    EXPECT_EQ(rowwise.empty(), profile.compute.matmul_f8 > 0);
    EXPECT_EQ(tensorwise.empty(), profile.compute.matmul_f8_tensorwise > 0);
    ++(!tensorwise.empty() ? none : !rowwise.empty() ? one_scale : all);
    const std::string start = "--set: precision.float8: " + profile.name + " makes no products in Float8";
    const std::string middle = ", so operands are decoded into bf16, which gains nothing; ";
    if (!tensorwise.empty()) {
      EXPECT_EQ(tensorwise, start + middle + "bf16 alone is faster there");
      EXPECT_EQ(rowwise, tensorwise);
    } else if (!rowwise.empty()) {
      EXPECT_EQ(rowwise, start + " with a scale for each row" + middle +
                             "set precision.float8_scales = \"tensorwise\"");
    }
  }
  EXPECT_TRUE(none > 0 && one_scale > 0 && all > 0) << none << " " << one_scale << " " << all;
}

/// A group of the data axis must have a host for itself, or share one with other groups.
TEST(Teams, GpusOfAHostReadEachOthersGradients) {
  const machine::Profile gpus = machine::shipped_machine("h100").value(), host;
  const Deck wanted = test::small_deck({"schedule.peer_reads=true"});
  const auto text = [&](const Deck& deck, const machine::Profile& machine, std::vector<MeshAxis> axes,
                        int per_host) {
    Mesh mesh(std::move(axes));
    mesh.set_teams(teams_of(deck, mesh, machine, per_host));
    const std::string said = peer_reads_text(deck, mesh, machine, per_host);
    EXPECT_EQ(mesh.teams().peer_reads, said.find(": gradients are read where they stand") != said.npos);
    return said.substr(0, said.find(mesh.teams().peer_reads ? ';' : ','));
  };
  const std::string start = "schedule.peer_reads: gradients are ",
                    reads = start + "read where they stand, without scratch",
                    messages = start + "taken to be sent as messages";
  EXPECT_EQ(text(wanted, gpus, {{"data", 8}}, 8), reads);
  EXPECT_EQ(text(wanted, gpus, {{"data", 2}}, 8), reads);
  EXPECT_EQ(text(wanted, gpus, {{"replica", 2}, {"data", 8}}, 8), reads);
  EXPECT_EQ(text(wanted, gpus, {{"data", 4}, {"tensor", 2}}, 8), reads);
  EXPECT_EQ(text(wanted, gpus, {{"data", 8}}, 4), messages);
  EXPECT_EQ(text(wanted, gpus, {{"data", 8}}, 1), messages);
  EXPECT_EQ(text(wanted, gpus, {{"data", 8}, {"tensor", 2}}, 8), messages);
  EXPECT_EQ(text(wanted, gpus, {{"data", 6}}, 4), messages) << "hosts of four and of two";
  EXPECT_EQ(text(wanted, gpus, {{"data", 1}, {"tensor", 8}}, 8), "");
  EXPECT_EQ(text(wanted, host, {{"data", 2}}, 2), "");
  EXPECT_EQ(text(test::small_deck(), gpus, {{"data", 8}}, 8), "");
  EXPECT_EQ(text(test::small_deck({"schedule.peer_reads=true", "precision.reduction=native"}), gpus,
                 {{"data", 8}}, 8),
            "");
}

TEST(Programs, AnOperationThatIsNoneIsToldWithTheNearest) {
  const auto told = [](const std::string& rule) -> std::string {
    const Deck deck =
        test::small_deck({"schedule.recompute=selective", "schedule.recompute_ops=[\"" + rule + "\"]"});
    try {
      pass_options(deck, Mesh({{"data", 1}}));
    } catch (const Error& e) {
      return e.code() == ExitCode::bad_input ? e.what() : "another exit code";
    }
    return "";
  };
  const std::string start = "--set: schedule.recompute_ops: ";
  EXPECT_EQ(told("swiglue"), start +
                                 "'swiglue' is no operation (`weft plan --dump-after=autodiff` shows the "
                                 "model's); did you mean 'swiglu'?");
  EXPECT_EQ(told("zzz@layers.0"),
            start + "'zzz' is no operation (`weft plan --dump-after=autodiff` shows the model's)");
  EXPECT_EQ(told("swiglu@layers.0"), "");
  EXPECT_EQ(told("@layers.0"), "");
}

/// A plan without the pass says nothing of recomputation.
TEST(Programs, APassThatIsSwitchedOffComputesNothingAgain) {
  const auto text = [](const std::string& recompute, std::vector<std::string> more) {
    more.insert(more.end(), {"schedule.recompute=" + recompute, "data.global_batch=1"});
    const Deck deck = test::small_deck(more);
    const Mesh mesh({{"data", 1}});
    const passes::PassOptions options = pass_options(deck, mesh);
    return schedule_text(options, training_plan(deck, mesh, test::test_scratch, options));
  };
  for (const char* recompute : {"selective", "full"}) {
    EXPECT_NE(text(recompute, {}).find("recompute"), std::string::npos) << recompute;
    EXPECT_EQ(text(recompute, {"schedule.disable=recompute"}), text("none", {}));
  }
}

/// How many values the gathers of parameters make, forward and backward, in a step of so many rounds on 8
/// ranks.
std::pair<std::size_t, std::size_t> gathered(const std::string& regather, const std::string& mesh, int place,
                                             int rounds) {
  const Mesh of_eight = resolve_mesh(test::small_deck({"parallel.mesh=" + mesh}), 8);
  const Deck deck =
      test::small_deck({"parallel.mesh=" + mesh, "schedule.regather=" + regather, "schedule.bucketing=manual",
                        "data.global_batch=" + std::to_string(rounds * of_eight.batch_ranks())});
  const plan::Plan plan =
      training_plan(deck, of_eight, test::test_scratch, pass_options(deck, of_eight, place));
  std::pair<std::size_t, std::size_t> count;
  for (const ir::Node& node : plan.graph.nodes())
    if (node.op == ir::Op::all_gather && node.lane == Lane::gather)
      (node.phase == ir::Phase::forward ? count.first : count.second) += node.outputs.size();
  return count;
}

/// What stays gathered is not gathered again in backward. With four tensor ranks two share each head of keys
/// and values, which are then units of their own; the rounds of a pipe share what its stage has gathered.
TEST(Programs, RegatherNeverGathersNothingAgain) {
  for (const auto& [mesh, places] :
       {std::pair("{ data = 0 }", 1), std::pair("{ data = 0, tensor = 4 }", 1),
        std::pair("{ pipe = 2, data = 0 }", 2), std::pair("{ pipe = 2, data = 0, tensor = 2 }", 2)})
    for (int place = 0; place < places; ++place) {
      SCOPED_TRACE(std::string(mesh) + ", place " + std::to_string(place));
      const auto [forward, backward] = gathered("never", mesh, place, 4);
      EXPECT_GT(forward, 0U);
      EXPECT_EQ(backward, 0U);
      EXPECT_GT(gathered("always", mesh, place, 4).second, 0U);
      if (places > 1) {
        EXPECT_EQ(gathered("never", mesh, place, 8).first, forward) << "once a step";
      }
    }
}

}  // namespace
}  // namespace weft::compile
