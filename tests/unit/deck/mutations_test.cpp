// Tests damaged decks: whatever the damage, the answer is a deck, or an Error of short printable lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "unit/deck/example.hpp"

namespace weft::test {
namespace {

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  std::string mutated(std::string text) {
    for (auto n = below(4) + 1; n > 0; --n) {
      const auto at = below(text.size() + 1);
      const auto length = std::min(below(40) + 1, text.size() - at);
      switch (below(6)) {
        case 0: text.insert(at, 1, static_cast<char>(below(256))); break;
        case 1: text.erase(at, length); break;
        case 2: text.insert(at, text.substr(at, length)); break;
        case 3: text.insert(at, word()); break;
        case 4: swap_values(text); break;
        case 5:
          if (at < text.size()) text[at] = static_cast<char>(below(128));
          break;
      }
    }
    return text;
  }

  const std::string& word() {
    static const std::vector<std::string> words{"[",
                                                "]]",
                                                "[[model]]",
                                                "[model.dim]",
                                                "\n[run]\n",
                                                "{",
                                                "}",
                                                "=",
                                                ".",
                                                "\"",
                                                "'''",
                                                "\"\"\"",
                                                "\\u0000",
                                                "\\",
                                                "#",
                                                "-",
                                                "nan",
                                                "-inf",
                                                "true",
                                                "1e999",
                                                "99999999999999999999",
                                                "-9223372036854775808",
                                                "9223372036854775807",
                                                "0x7f",
                                                "0",
                                                "1979-05-27T07:32:00Z",
                                                "25:61:61",
                                                "\xff",
                                                "\xc3\x28",
                                                "\xe7\xb9\x94",
                                                "\r",
                                                "\n",
                                                std::string(1, '\0'),
                                                "model.",
                                                "a.b.c.d = 1\n",
                                                "learning_rate = 3\n",
                                                "[\"a\", [1, {b = 2}]]",
                                                std::string(300, '['),
                                                std::string(300, 'x')};
    return words[below(words.size())];
  }

 private:
  /// Gives one key the value of another.
  void swap_values(std::string& text) {
    const auto from = text.find("= ", below(text.size() + 1));
    const auto to = text.find("= ", below(text.size() + 1));
    if (from == text.npos || to == text.npos) return;
    const auto value = text.substr(from, text.find('\n', from) - from);
    text.replace(to, text.find('\n', to) - to, value);
  }

  std::mt19937_64 random_;
};

/// Checks what holds for every input. Returns whether the deck was taken.
bool survives(const std::string& text, const std::vector<std::string>& sets) {
  Deck deck;
  try {
    deck = parse_deck_text(text, "d.toml", sets);
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    EXPECT_FALSE(message.empty());
    EXPECT_LE(std::count(message.begin(), message.end(), '\n'), 20) << message;
    EXPECT_EQ(message.find("\n\n"), message.npos) << message;
    for (const char c : message) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << message;
    return false;
  }
  EXPECT_TRUE(parse_deck_text(print_deck(deck), "printed") == deck) << text;
  return true;
}

TEST(Mutations, OfDecksNeverCrash) {
  Mutator mutator(1);
  int taken = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto& name = input_decks[static_cast<std::size_t>(i) % input_decks.size()];
    taken += survives(mutator.mutated(read_text(input_path(name))), {});
  }
  EXPECT_GT(taken, 100);   // damage in comments, and values that still fit
  EXPECT_LT(taken, 1900);  // most of the damage is seen
}

TEST(Mutations, OfSettingsNeverCrash) {
  Mutator mutator(2);
  const std::vector<std::string> settings{"model.dim=64",
                                          "run.walltime=\"2h30m\"",
                                          "parallel.mesh={ data = 2 }",
                                          "data.train=[\"a\", \"b\"]",
                                          "parallel.mesh.data=4",
                                          "model.rope_scaling={factor=8}",
                                          "optimizer.decay=wsd",
                                          "run.name=x"};
  int taken = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto& setting = settings[static_cast<std::size_t>(i) % settings.size()];
    taken += survives(std::string(example), {mutator.mutated(setting), mutator.mutated(setting)});
  }
  EXPECT_GT(taken, 20);    // some changes only give keys other values
  EXPECT_LT(taken, 1900);  // the damage is seen
}

}  // namespace
}  // namespace weft::test
