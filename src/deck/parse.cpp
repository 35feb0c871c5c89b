// Parses a deck (declared in deck.hpp): reads the tree of its TOML text into a Deck, and fills in defaults.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/check.hpp"
#include "base/quoted.hpp"
#include "deck/assign.hpp"
#include "deck/deck.hpp"
#include "deck/problems.hpp"
#include "deck/schema.hpp"
#include "deck/set.hpp"
#include "deck/suggest.hpp"
#include "deck/toml_tree.hpp"

namespace weft {
namespace {

using deck::find_key;
using deck::find_table;
using deck::Problems;
using deck::Value;

// The largest deck that is read. A deck has a few kilobytes; a larger file is a token file, or a checkpoint.
constexpr std::uintmax_t most_bytes = 1 << 20;

/// Walks a tree and fills a Deck.
class Reader {
 public:
  Reader(Deck& deck, Problems& problems) : deck_(deck), problems_(problems) {}

  void read(const Value& table, const std::string& prefix) {
    for (const auto& item : table.items) {
      const std::string path = prefix.empty() ? item.name : fmt::format("{}.{}", prefix, item.name);
      if (const auto* key = find_key(path)) {
        deck::assign(*key, item, deck_, problems_);
        deck_.places.push_back({path, item.place});
      } else if (!find_table(path)) {
        unknown(item, path, prefix);
      } else if (item.kind == Value::Kind::table) {
        read(item, path);
        tables_.push_back({path, item.place});
      } else {
        meant_.push_back(path);
        problems_.add(
            item.place, path,
            fmt::format("{} is not a table (its keys stand below [{}])", deck::describe(item), path));
      }
    }
  }

  /// Adds a problem for each required key that is missing, or one for the whole table where that is missing.
  void require() {
    for (const auto& table : deck::tables()) {
      std::vector<std::string_view> missing;
      for (const auto& key : deck::keys())
        if (key.table() == table.path && key.need == deck::Need::required && !accounted_for(key.path))
          missing.push_back(key.name());
      if (missing.empty()) continue;
      const auto at = std::find_if(tables_.begin(), tables_.end(),
                                   [&table](const auto& given) { return given.key == table.path; });
      if (at == tables_.end()) {
        problems_.add(deck_.source + ":1", table.path,
                      fmt::format("missing table (required in it: {})", joined(missing)));
        continue;
      }
      for (const auto name : missing) {
        const std::string path = fmt::format("{}.{}", table.path, name);
        problems_.add(at->place, path, fmt::format("missing (required: {})", find_key(path)->doc));
      }
    }
  }

 private:
  void unknown(const Value& item, const std::string& path, const std::string& prefix) {
    const bool table = item.kind == Value::Kind::table;
    std::vector<std::string_view> names;
    if (prefix.empty()) {
      for (const auto& t : deck::tables()) names.push_back(t.path);
    } else {
      for (const auto& key : deck::keys())
        if (key.table() == prefix) names.push_back(key.name());
    }
    const auto nearest = prefix.empty() && table ? deck::nearest_table(path) : deck::nearest_key(path);
    meant_.emplace_back(nearest);
    const auto why = prefix.empty() ? (table ? "tables: " : "a key stands in a table: ")
                                    : fmt::format("keys of [{}]: ", prefix);
    problems_.add(item.place, path,
                  fmt::format("unknown {} ({}{}){}", table && prefix.empty() ? "table" : "key", why,
                              joined(names), deck::did_you_mean(nearest)));
  }

  /// Whether the key was given, or was meant by an unknown key or table that has been reported already.
  bool accounted_for(std::string_view path) const {
    const auto is = [path](const auto& given) { return given.key == path; };
    if (std::any_of(deck_.places.begin(), deck_.places.end(), is)) return true;
    const auto table = path.substr(0, path.rfind('.'));
    return std::any_of(meant_.begin(), meant_.end(),
                       [&](const auto& meant) { return meant == path || meant == table; });
  }

  static std::string joined(const std::vector<std::string_view>& names) {
    std::string list;
    for (const auto name : names) list.append(list.empty() ? "" : ", ").append(name);
    return list;
  }

  Deck& deck_;
  Problems& problems_;
  std::vector<KeyPlace> tables_;    // the tables that are there
  std::vector<std::string> meant_;  // keys and tables that a reported mistake stands for
};

/// Fills in the defaults that follow from other keys.
void fill_in(Deck& deck) {
  if (deck.run.dir.empty()) deck.run.dir = fmt::format("runs/{}", deck.run.name);
  const auto given = [&deck](std::string_view key) {
    return std::any_of(deck.places.begin(), deck.places.end(),
                       [key](const auto& place) { return place.key == key; });
  };
  if (!given("model.kv_heads")) deck.model.kv_heads = deck.model.heads;
  auto& optimizer = deck.optimizer;
  if (optimizer.decay == LrDecay::wsd && optimizer.decay_steps == 0)
    optimizer.decay_steps = std::clamp<std::int64_t>(deck.run.steps - optimizer.warmup, 0,
                                                     std::max<std::int64_t>(1, deck.run.steps / 10));
}

/// The deck that `path` may have meant: the nearest name in the same directory and in inputs/.
std::string nearest_deck(const std::filesystem::path& path) {
  std::string nearest;
  std::size_t best = 4;
  for (const auto& folder : {path.parent_path(), std::filesystem::path("inputs")}) {
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder.empty() ? "." : folder, error), end;
         !error && it != end; it.increment(error)) {
      const auto& candidate = it->path();
      if (candidate.extension() != ".toml") continue;
      const auto distance = deck::edit_distance(path.stem().string(), candidate.stem().string());
      if (distance >= best) continue;
      best = distance;
      nearest = folder.empty() ? candidate.filename().string() : candidate.string();
    }
  }
  return nearest;
}

std::string read_file(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  WEFT_VALIDATE(!std::filesystem::is_directory(status),
                "{}: cannot read the deck (a directory); name a .toml file in it", one_line(path));
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int why = errno;
    const auto nearest = std::filesystem::exists(status) ? std::string{} : nearest_deck(path);
    throw Error(exit_code_of_named_file(why),
                fmt::format("{}: cannot read the deck ({}){}", one_line(path),
                            why == 0 ? "cannot be opened" : std::strerror(why), deck::did_you_mean(nearest)));
  }
  std::string text(most_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  WEFT_SYSTEM(!file.bad(), "{}: cannot read the deck ({}); try again when it can be read", one_line(path),
              std::strerror(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  WEFT_VALIDATE(text.size() <= most_bytes, "{}: not a deck (larger than {} bytes); decks are TOML text",
                one_line(path), most_bytes);
  return text;
}

/// The deck with all its keys, of which each is in its range.
Deck read_deck(std::string_view text, const std::string& source_name, std::span<const std::string> sets) {
  Problems problems;
  Deck deck;
  deck.source = source_name;
  Value tree = deck::read_toml(text, source_name, problems);
  problems.throw_if_any();  // without a tree there is nothing more to find
  for (const auto& set : sets) deck::apply_set(set, tree, problems);
  Reader reader(deck, problems);
  reader.read(tree, "");
  reader.require();
  problems.throw_if_any();
  fill_in(deck);
  return deck;
}

}  // namespace

Deck parse_deck_text(std::string_view text, const std::string& source_name,
                     std::span<const std::string> sets) {
  Deck deck = read_deck(text, source_name, sets);
  validate(deck);
  return deck;
}

Deck parse_saved_deck(std::string_view text, const std::string& source_name) {
  std::vector<std::string> then;
  if (text.find("f32_products") == std::string_view::npos) then.emplace_back("precision.f32_products=plain");
  Deck deck = read_deck(text, source_name, then);
  // Before there was this key, norms' weights had the type of all parameters.
  if (text.find("\nnorms = ") == std::string_view::npos) deck.precision.norms = deck.precision.params;
  return deck;
}

Deck read_saved_deck(const std::string& path) {
  return parse_saved_deck(read_file(path), path);
}

Deck parse_deck(const std::string& path, std::span<const std::string> sets) {
  return parse_deck_text(read_file(path), path, sets);
}

}  // namespace weft
