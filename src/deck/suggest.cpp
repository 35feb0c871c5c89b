#include "deck/suggest.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "deck/aliases.hpp"
#include "deck/schema.hpp"

namespace weft::deck {
namespace {

/// The word in lower case, with '_' for '-' and ' '. It is cut, because no name is longer, and the distance
/// costs the product of the lengths.
std::string plain(std::string_view word) {
  std::string result(word.substr(0, 64));
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-' || c == ' ') c = '_';
  }
  return result;
}

/// Keeps the candidate with the lowest score. A word is near enough when a third of it differs (a letter of
/// three to five, none of two), or when one is the start of the other.
class Best {
 public:
  explicit Best(std::string_view word) : word_(plain(word)) {}

  void offer(std::string_view spelling, std::string_view answer, std::size_t penalty) {
    const std::size_t shorter = std::min(word_.size(), spelling.size());
    const std::size_t longer = std::max(word_.size(), spelling.size());
    const bool begins = shorter >= 3 && word_.substr(0, shorter) == spelling.substr(0, shorter);
    const std::size_t most = word_.size() / 3;
    if (!begins && longer - shorter > most) return;  // the distance is not less than this
    const std::size_t distance = begins ? longer != shorter : edit_distance(word_, spelling);
    if (distance > most || distance >= spelling.size()) return;
    const std::size_t score = 2 * distance + penalty;
    if (score < score_) {
      score_ = score;
      answer_ = answer;
    }
  }
  std::string_view answer() const { return answer_; }

 private:
  std::string word_;
  std::string_view answer_;
  std::size_t score_ = static_cast<std::size_t>(-1);
};

std::string_view table_part(std::string_view path) {
  return path.substr(0, std::min(path.rfind('.'), path.size()));
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(std::min(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string_view nearest_key(std::string_view path) {
  const std::string whole = plain(path);
  for (const auto& alias : path_aliases)
    if (alias.theirs == whole) return alias.ours;
  const auto dot = path.rfind('.');
  const auto leaf = dot == path.npos ? path : path.substr(dot + 1);
  // An unknown table ("optim.lr") counts as the one it was meant to be.
  std::string_view table = dot == path.npos ? std::string_view{} : path.substr(0, dot);
  if (!find_table(table)) table = nearest_table(table);
  Best best(leaf);
  const auto penalty = [table](std::string_view answer) -> std::size_t {
    return table_part(answer) != table;
  };
  for (const auto& key : keys()) best.offer(key.name(), key.path, penalty(key.path));
  for (const auto& alias : key_aliases) best.offer(alias.theirs, alias.ours, penalty(alias.ours));
  for (const auto& sub : tables())
    if (sub.path.find('.') != sub.path.npos)
      best.offer(sub.path.substr(sub.path.rfind('.') + 1), sub.path, penalty(sub.path));
  return best.answer();
}

std::string_view nearest_table(std::string_view name) {
  Best best(name);
  for (const auto& table : tables()) best.offer(table.path, table.path, 0);
  for (const auto& alias : table_aliases) best.offer(alias.theirs, alias.ours, 0);
  return best.answer();
}

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> words) {
  Best best(word);
  for (const auto& w : words) best.offer(w, w, 0);
  for (const auto& alias : value_aliases)
    if (std::find(words.begin(), words.end(), alias.ours) != words.end())
      best.offer(alias.theirs, alias.ours, 0);
  return best.answer();
}

std::string did_you_mean(std::string_view name) {
  return name.empty() ? std::string{} : fmt::format("; did you mean '{}'?", name);
}

}  // namespace weft::deck
