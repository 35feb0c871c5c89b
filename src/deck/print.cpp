#include "deck/print.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/quoted.hpp"
#include "deck/bytes.hpp"
#include "deck/duration.hpp"
#include "deck/problems.hpp"

namespace weft::deck {
namespace {

std::string number(double x) {
  std::string text = fmt::format("{}", x);  // the shortest text that reads back to the same bits
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

struct Printer {
  const Key& key;

  std::string operator()(const bool* member) const { return *member ? "true" : "false"; }
  std::string operator()(const std::int64_t* member) const { return fmt::format("{}", *member); }
  std::string operator()(const double* member) const {
    const std::string text = key.form == Form::duration ? print_duration(*member)
                             : key.form == Form::bytes  ? print_bytes(*member)
                                                        : "";
    return text.empty() ? number(*member) : weft::quoted(text);
  }
  std::string operator()(const std::string* member) const { return weft::quoted(*member); }
  std::string operator()(const std::vector<std::string>* member) const {
    if (member->size() == 1) return weft::quoted(member->front());
    std::string list;
    for (const auto& text : *member) list += (list.empty() ? "" : ", ") + weft::quoted(text);
    return fmt::format("[{}]", list);
  }
  std::string operator()(const std::vector<std::int64_t>* member) const {
    return fmt::format("[{}]", fmt::join(*member, ", "));
  }
  std::string operator()(const std::vector<MeshAxis>* member) const {
    if (member->empty()) return weft::quoted("auto");
    std::string list;
    for (const auto& axis : *member)
      list += fmt::format("{} {} = {}", list.empty() ? "" : ",", axis.name, axis.size);
    return fmt::format("{{{} }}", list);
  }
  template <class E>
  std::string operator()(const E* member) const {
    for (const auto& [value, name] : choices(*member))
      if (value == *member) return weft::quoted(name);
    return "\"?\"";
  }
};

/// The text in ASCII, for a comment: a file's name need not be UTF-8, but TOML has to be.
std::string ascii(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  return text;
}

}  // namespace

std::string value_text(const Key& key, const Deck& deck) {
  Deck copy = deck;  // a slot points into a mutable deck
  return std::visit(Printer{key}, key.slot(copy));
}

}  // namespace weft::deck

namespace weft {

std::string print_deck(const Deck& deck) {
  std::string text =
      fmt::format("# Resolved from {}\n", deck::ascii(one_line(deck.source.empty() ? "code" : deck.source)));
  std::string_view table;
  for (const auto& key : deck::keys()) {
    if (key.table() != table) {
      table = key.table();
      text += fmt::format("\n[{}]\n", table);
    }
    text += fmt::format("{} = {}\n", key.name(), deck::value_text(key, deck));
  }
  return text;
}

std::vector<KeyChange> changes(const Deck& from, const Deck& to) {
  std::vector<KeyChange> list;
  for (const auto& key : deck::keys()) {
    KeyChange change{fmt::format("{}.{}", key.table(), key.name()), deck::value_text(key, from),
                     deck::value_text(key, to)};
    if (change.from != change.to) list.push_back(std::move(change));
  }
  return list;
}

}  // namespace weft
