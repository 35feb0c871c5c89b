#include "deck/schema.hpp"

#include <gtest/gtest.h>

#include <set>

#include "deck/assign.hpp"
#include "deck/print.hpp"
#include "unit/deck/example.hpp"

namespace weft::deck {
namespace {

TEST(Schema, EachKeyIsBoundToAMemberOfItsOwn) {
  Deck deck;
  std::set<const void*> members;
  std::set<std::string_view> paths;
  for (const auto& key : keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    const void* member = std::visit([](auto* m) -> const void* { return m; }, key.slot(deck));
    EXPECT_TRUE(members.insert(member).second) << key.path;
  }
}

TEST(Schema, TablesAreInOrderAndNotEmpty) {
  std::vector<std::string_view> seen;
  for (const auto& key : keys())
    if (seen.empty() || seen.back() != key.table()) seen.push_back(key.table());
  std::vector<std::string_view> listed;
  for (const auto& table : tables()) listed.push_back(table.path);
  EXPECT_EQ(seen, listed);
}

TEST(Schema, DefaultsAreInRangeAndOfTheirType) {
  for (const auto& key : keys()) {
    if (key.need == Need::required || !key.derived_default.empty()) continue;
    Deck deck;
    EXPECT_EQ(range_problem(key, deck), "") << key.path;
    Value value;
    ASSERT_EQ(read_toml_value(value_text(key, deck), "here", value), ReadValue::good) << key.path;
    Problems problems;
    Deck read;
    assign(key, value, read, problems);
    EXPECT_TRUE(problems.empty()) << key.path;
    EXPECT_TRUE(read == deck) << key.path;
  }
}

TEST(Schema, EveryKeyIsExplained) {
  for (const auto& key : keys()) {
    EXPECT_GT(key.doc.size(), 10u) << key.path;
    EXPECT_EQ(key.doc.back(), '.') << key.path;
    EXPECT_EQ(key.doc.find_first_of("\n|"), key.doc.npos) << key.path;  // it is a cell of a Markdown table
    EXPECT_NE(schema_text().find("\n  " + std::string(key.name()) + " "), std::string::npos) << key.path;
    EXPECT_NE(schema_markdown().find("\n| `" + std::string(key.name()) + "` | "), std::string::npos)
        << key.path;
  }
}

TEST(Schema, TextOfAKey) {
  EXPECT_NE(schema_text().find("  beta1                  number, at least 0 and below 1; default 0.9\n"
                               "      Decay of AdamW's first moment.\n"),
            std::string::npos);
  EXPECT_NE(
      schema_markdown().find("| `kv_heads` | integer | `model.heads` | 1 to 65536 | Key and value heads; "),
      std::string::npos);
  EXPECT_NE(schema_markdown().find("| `mode` | one of ddp, zero1, zero2, fsdp | `\"fsdp\"` |  | "),
            std::string::npos);
}

TEST(Schema, LargestModelsParametersFitIn63Bits) {
  ModelDeck m;
  const auto high = [](const char* path) { return static_cast<std::int64_t>(find_key(path)->range.high); };
  m.dim = high("model.dim");
  m.layers = high("model.layers");
  m.heads = m.kv_heads = high("model.heads");
  m.ffn = high("model.ffn");
  m.vocab = high("model.vocab");
  const auto exact = static_cast<__float128>(m.layers) * (4 * static_cast<__float128>(m.dim) * m.dim +
                                                          3 * static_cast<__float128>(m.dim) * m.ffn);
  EXPECT_LT(exact, 0x1p63L);
  EXPECT_GT(parameter_count(m), static_cast<std::int64_t>(exact));
}

TEST(Schema, DocumentIsUpToDate) {
  EXPECT_EQ(test::read_text(WEFT_SOURCE_DIR "/docs/deck.md"), schema_markdown())
      << "docs/deck.md is stale; renew it with: weft deck --schema --markdown > docs/deck.md";
}

}  // namespace
}  // namespace weft::deck
