#include "passes/module_path.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace weft::passes {
namespace {

TEST(ModulePath, AStarGivesWhatItStandsFor) {
  EXPECT_EQ(matched_part("layers.*", "layers.3.attn"), "layers.3.");
  EXPECT_EQ(matched_part("layers.*.attn", "layers.12.attn.qkv"), "layers.12.attn.");
  EXPECT_EQ(matched_part("*", "embed"), "embed.");
  EXPECT_EQ(matched_part("layers.*", "layers"), std::nullopt) << "it stands for a component, not for none";
}

/// All members of a range give one text: those of a bucket are found by it.
TEST(ModulePath, ARangeKeepsItsName) {
  for (const char* member : {"layers.2.attn", "layers.3.ffn", "layers.5.attn"})
    EXPECT_EQ(matched_part("layers.2-5", member), "layers.2-5.") << member;
  EXPECT_EQ(matched_part("layers.2-5.ffn", "layers.4.ffn"), "layers.2-5.ffn.");
  EXPECT_EQ(matched_part("layers.3-3", "layers.3"), "layers.3-3.");
  EXPECT_EQ(matched_part("layers.9-11", "layers.10"), "layers.9-11.") << "by its number, not by its letters";
}

TEST(ModulePath, ARangeHasItsEndsAndNothingBeyondThem) {
  for (const char* other :
       {"layers.1", "layers.6", "layers.25", "layers.x", "layers.3x", "layers.", "layers"})
    EXPECT_EQ(matched_part("layers.2-5", other), std::nullopt) << other;
  for (const char* none : {"layers.5-2", "layers.2-", "layers.-5", "layers.-", "layers.2-x", "layers.2-5-9"})
    EXPECT_EQ(matched_part(none, "layers.3"), std::nullopt) << none;
}

TEST(ModulePath, APatternMatchesWholeComponentsFromTheBeginning) {
  EXPECT_EQ(matched_part("", "layers.3.attn"), "");
  EXPECT_EQ(matched_part("layers", "layers.3.attn"), "layers.");
  EXPECT_EQ(matched_part("layers.3.attn", "layers.3.attn"), "layers.3.attn.");
  for (const char* other : {"layer", "layers.30", "attn", "layers.3.ffn", "layers.3.attn.qkv"})
    EXPECT_EQ(matched_part(other, "layers.3.attn"), std::nullopt) << other;
}

}  // namespace
}  // namespace weft::passes
