#include "study/study_file.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <sstream>

#include "base/check.hpp"
#include "compile/machine_profile.hpp"
#include "deck/deck.hpp"
#include "deck/suggest.hpp"
#include "deck/toml_tree.hpp"
#include "io/small_file.hpp"

namespace weft::study {
namespace {

using deck::Value;
using Kind = Value::Kind;

constexpr std::string_view default_launch = "jobs/launch.sh -n {ranks} --";
constexpr int most_ranks = 1 << 24;

enum class Scaling : std::uint8_t { strong, weak };

/// The parts of a cell's name and series that settings have: "precision.params=bf16", without what file
/// systems may not take.
std::string for_file_names(std::string text) {
  for (char& c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '=' && c != '_') c = '-';
  constexpr std::size_t most = 120;
  return text.substr(0, most);
}

/// A value as --set takes it.
std::string set_text(const Value& value) {
  switch (value.kind) {
    case Kind::boolean: return value.boolean ? "true" : "false";
    case Kind::integer: return fmt::format("{}", value.integer);
    case Kind::real: return fmt::format("{}", value.real);
    case Kind::text: return value.text.empty() ? "\"\"" : value.text;
    default: return "";
  }
}

class Reader {
 public:
  Reader(Value root, std::string path) : root_(std::move(root)), path_(std::move(path)) {}

  Study read() {
    known(root_, "", {"name", "dir", "launch", "sbatch", "part"});
    Study study;
    study.name = text(root_, "name").value_or(std::filesystem::path(path_).stem().string());
    if (study.name.empty() || study.name == "." || study.name == ".." ||
        study.name.find('/') != std::string::npos)
      add(find(root_, "name"), "name", "it names a directory (no '/', not empty, not '.' or '..')");
    study.dir = text(root_, "dir").value_or("studies/" + study.name);
    if (study.dir.empty()) add(find(root_, "dir"), "dir", "it is empty (it names a directory)");
    study.launch = text(root_, "launch").value_or(std::string(default_launch));
    if (study.launch.find("{ranks}") == std::string::npos)
      add(find(root_, "launch"), "launch", "it has no '{ranks}' (the number of ranks goes there)");
    if (Value* list = find(root_, "sbatch")) study.sbatch = texts(*list, "sbatch");
    Value* parts = find(root_, "part");
    if (parts == nullptr || parts->kind != Kind::array || parts->items.empty()) {
      problems_.add(path_, "part", "missing (a study has one [[part]] or more)");
    } else {
      for (std::size_t i = 0; i < parts->items.size(); ++i) read_part(parts->items[i], i + 1, study);
    }
    problems_.throw_if_any();
    check_decks(study);
    return study;
  }

 private:
  struct Series {
    std::string name;
    std::vector<std::string> sets;
  };

  void add(const Value* at, std::string_view key, const std::string& problem) {
    problems_.add(at != nullptr ? at->place : path_, key, problem);
  }

  void known(const Value& table, std::string_view where, std::vector<std::string_view> keys) {
    for (const Value& item : table.items)
      if (std::find(keys.begin(), keys.end(), item.name) == keys.end())
        add(&item, fmt::format("{}{}", where, item.name),
            fmt::format("unknown key (keys: {}){}", fmt::join(keys, ", "),
                        deck::did_you_mean(deck::nearest_word(item.name, keys))));
  }

  std::optional<std::string> text(Value& table, std::string_view key) {
    Value* value = find(table, key);
    if (value == nullptr) return std::nullopt;
    if (value->kind == Kind::text) return value->text;
    add(value, key, "it is not text (write \"...\")");
    return std::nullopt;
  }

  std::vector<std::string> texts(const Value& list, std::string_view key) {
    if (list.kind == Kind::text) return {list.text};
    std::vector<std::string> all;
    if (list.kind != Kind::array) add(&list, key, "it is not a list of texts, [\"...\", \"...\"]");
    if (list.kind == Kind::array && list.items.empty() && key == "deck") add(&list, key, "an empty list");
    for (const Value& item : list.items) {
      if (item.kind != Kind::text) add(&item, key, "an item of the list is not text");
      all.push_back(item.text);
    }
    return all;
  }

  template <class E>
  E choice(Value& table, std::string_view key, std::span<const std::pair<E, std::string_view>> choices) {
    const std::optional<std::string> word = text(table, key);
    if (!word) return choices.front().first;
    std::vector<std::string_view> names;
    for (const auto& [value, name] : choices) {
      if (*word == name) return value;
      names.push_back(name);
    }
    add(find(table, key), key,
        fmt::format("'{}' is not one of the choices ({}){}", *word, fmt::join(names, ", "),
                    deck::did_you_mean(deck::nearest_word(*word, names))));
    return choices.front().first;
  }

  std::vector<int> ranks(Value& part) {
    std::vector<int> list;
    Value* value = find(part, "ranks");
    if (value == nullptr) {
      problems_.add(part.place, "ranks", "missing (a number of ranks, or a list of such numbers)");
      return list;
    }
    const auto take = [&](const Value& item) {
      if (item.kind != Kind::integer || item.integer < 1 || item.integer > most_ranks)
        add(&item, "ranks", fmt::format("it is not a whole number from 1 to {}", most_ranks));
      else
        list.push_back(static_cast<int>(item.integer));
    };
    if (value->kind != Kind::array) take(*value);
    for (const Value& item : value->items) take(item);
    if (value->kind == Kind::array && value->items.empty()) add(value, "ranks", "an empty list");
    return list;
  }

  /// All combinations of the values in the tables `machine` and `over`, the last of them changing fastest.
  std::vector<Series> series_of(Value& part, How how) {
    std::vector<Series> all{{"", {}}};
    const auto multiply = [&](const std::string& key, const Value& values, const std::string& shown) {
      const std::vector<Value> list = values.kind == Kind::array ? values.items : std::vector<Value>{values};
      if (list.empty()) add(&values, shown, "an empty list");
      for (const Value& value : list)
        if (value.kind == Kind::array || value.kind == Kind::table)
          add(&value, shown, "a value is text, a number or a boolean (tables as text: \"{ tensor = 2 }\")");
      std::vector<Series> more;
      for (const Series& s : all)
        for (const Value& value : list) {
          Series next = s;
          const std::string text = set_text(value);
          next.name += fmt::format("{}{}", next.name.empty() ? "" : ", ",
                                   key == "schedule.profile" ? text : key + "=" + text);
          next.sets.push_back(key + "=" + text);
          more.push_back(std::move(next));
        }
      all = std::move(more);
    };
    if (Value* machine = find(part, "machine")) {
      if (how != How::simulate)
        add(machine, "machine", "only simulated cells have a machine that is not here (how = \"simulate\")");
      multiply("schedule.profile", *machine, "machine");
    } else if (how == How::simulate) {
      problems_.add(part.place, "machine", "missing (a simulated part names its machines)");
    }
    if (Value* over = find(part, "over")) {
      if (over->kind != Kind::table) add(over, "over", "it is not a table of keys with lists of values");
      for (const Value& key : over->items) add_over(key, "", multiply);
    }
    return all;
  }
  /// Keys of a deck may be written with dots, which TOML reads as tables.
  template <class Multiply>
  void add_over(const Value& value, const std::string& table, const Multiply& multiply) {
    const std::string key = table.empty() ? value.name : table + "." + value.name;
    if (value.kind != Kind::table) {
      multiply(key, value, "over." + key);
      return;
    }
    for (const Value& item : value.items) add_over(item, key, multiply);
  }

  void read_part(Value& part, std::size_t number, Study& study) {
    known(part, "part.", {"how", "deck", "ranks", "scaling", "machine", "set", "over"});
    static constexpr std::array hows{std::pair(How::run, std::string_view("run")),
                                     std::pair(How::slurm, std::string_view("slurm")),
                                     std::pair(How::simulate, std::string_view("simulate"))};
    static constexpr std::array scalings{std::pair(Scaling::strong, std::string_view("strong")),
                                         std::pair(Scaling::weak, std::string_view("weak"))};
    const How how = choice<How>(part, "how", hows);
    const Scaling scaling = choice<Scaling>(part, "scaling", scalings);
    Value* const list = find(part, "deck");
    if (list == nullptr) problems_.add(part.place, "deck", "missing (a deck's file, or a list of them)");
    const std::vector<std::string> decks =
        list == nullptr ? std::vector<std::string>{} : texts(*list, "deck");
    std::vector<std::string> sets;
    if (Value* value = find(part, "set")) sets = texts(*value, "set");
    const std::vector<int> counts = ranks(part);
    const std::vector<Series> all = series_of(part, how);
    if (!problems_.empty()) return;
    const int least = *std::min_element(counts.begin(), counts.end());
    for (const std::string& file : decks)
      for (const Series& s : all)
        for (const int n : counts) {
          Cell cell;
          cell.how = how;
          cell.deck = file;
          cell.ranks = n;
          cell.sets = sets;
          cell.sets.insert(cell.sets.end(), s.sets.begin(), s.sets.end());
          const std::string stem = std::filesystem::path(file).stem().string();
          cell.series = fmt::format("{}{}{} ({}, {})", stem, s.name.empty() ? "" : ", ", s.name, name_of(how),
                                    scaling == Scaling::weak ? "weak" : "strong");
          // Parts may differ in what the name does not say.
          const std::string all_but_ranks = fmt::format("{}\n{}", file, fmt::join(cell.sets, "\n"));
          if (series_.try_emplace(cell.series, all_but_ranks).first->second != all_but_ranks)
            cell.series += fmt::format(", part {}", number);
          cell.name = for_file_names(fmt::format("{}-{}-{}{}{}-{}", number, name_of(how), stem,
                                                 s.name.empty() ? "" : "-", s.name, n));
          if (scaling == Scaling::weak) weak_.push_back({study.cells.size(), least});
          parts_.push_back({part.place, number});
          study.cells.push_back(std::move(cell));
        }
  }

  /// Calls what reads the deck of a cell. Mistakes then begin with the part, whose settings may have made
  /// them.
  template <class F>
  void in_part(std::size_t cell, const F& read) const {
    try {
      read();
    } catch (const Error& e) {
      std::istringstream lines(e.what());
      std::string text;
      for (std::string line; std::getline(lines, line);)
        text += fmt::format("{}{}: part {}: {}", text.empty() ? "" : "\n", parts_[cell].place,
                            parts_[cell].number, line);
      throw Error(e.code(), text);
    }
  }

  /// Lets the decks speak: each cell's must be one, and names must be unique. A weakly scaled deck has the
  /// batch of its smallest number of ranks, which grows with the ranks.
  void check_decks(Study& study) {
    for (const Weak& weak : weak_)
      in_part(weak.cell, [&] {
        Cell& cell = study.cells[weak.cell];
        const std::int64_t batch = parse_deck(cell.deck, cell.sets).data.global_batch;
        WEFT_VALIDATE(
            batch * cell.ranks % weak.least == 0,
            "scaling: data.global_batch = {} of {} ranks cannot grow to {} ranks in whole sequences", batch,
            weak.least, cell.ranks);
        cell.sets.push_back(fmt::format("data.global_batch={}", batch * cell.ranks / weak.least));
      });
    std::set<std::string> names, machines;
    for (std::size_t i = 0; i < study.cells.size(); ++i)
      in_part(i, [&] {
        const Cell& cell = study.cells[i];
        const Deck deck = parse_deck(cell.deck, cell.sets);
        if (machines.insert(deck.schedule.profile).second)
          compile::machine_profile(deck);  // throws its errors
        WEFT_VALIDATE(names.insert(cell.name).second,
                      "two cells would have the directory {} (shorten their values)", cell.name);
      });
  }

  /// A cell whose batch grows with its ranks, from that of `least` ranks.
  struct Weak {
    std::size_t cell;
    int least;
  };

  struct Part {
    std::string place;   ///< "FILE:LINE"
    std::size_t number;  ///< in the file, from 1
  };

  Value root_;
  std::string path_;
  deck::Problems problems_;
  std::vector<Weak> weak_;
  std::vector<Part> parts_;                    ///< of each cell
  std::map<std::string, std::string> series_;  ///< by name: what its cells have in common
};

}  // namespace

std::string_view name_of(How how) {
  switch (how) {
    case How::run: return "run";
    case How::slurm: return "slurm";
    case How::simulate: return "simulate";
  }
  return "?";
}

Study read_study(const std::string& path) {
  const std::optional<std::string> text = io::read_if_there(path);
  WEFT_VALIDATE(text.has_value(), "{}: there is no such study (give a TOML file with [[part]] tables)", path);
  deck::Problems problems;
  Value root = deck::read_toml(*text, path, problems);
  problems.throw_if_any();
  return Reader(std::move(root), path).read();
}

}  // namespace weft::study
