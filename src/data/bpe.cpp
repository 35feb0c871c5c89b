#include "data/bpe.hpp"

#include <algorithm>

namespace weft::data {

bool Bpe::candidate(std::int32_t at, Candidate& made) const {
  const Symbol& left = symbols_[static_cast<std::size_t>(at)];
  if (left.behind < 0) return false;
  const std::int32_t right = symbols_[static_cast<std::size_t>(left.behind)].id;
  const auto found = merges_.find(key(left.id, right));
  if (found == merges_.end()) return false;
  made = {found->second.rank, at, left.id, right, found->second.merged};
  return true;
}

void Bpe::push(std::int32_t at) {
  Candidate made{};
  if (at < 0 || !candidate(at, made)) return;
  heap_.push_back(made);
  std::push_heap(heap_.begin(), heap_.end(), later);
}

/// Merges a pair that still stands as it did when it became a candidate.
void Bpe::merge(const Candidate& pair) {
  Symbol& left = symbols_[static_cast<std::size_t>(pair.at)];
  if (left.id != pair.left || left.behind < 0) return;
  Symbol& right = symbols_[static_cast<std::size_t>(left.behind)];
  if (right.id != pair.right) return;
  left.id = pair.merged;
  left.behind = right.behind;
  right.id = -1;
  if (left.behind >= 0) symbols_[static_cast<std::size_t>(left.behind)].before = pair.at;
  push(left.before);
  push(pair.at);
}

void Bpe::encode(std::string_view word, std::vector<std::int32_t>& ids) {
  const auto size = static_cast<std::int32_t>(word.size());
  symbols_.clear();
  heap_.clear();
  for (std::int32_t i = 0; i < size; ++i)
    symbols_.push_back({byte_ids_[static_cast<unsigned char>(word[static_cast<std::size_t>(i)])], i - 1,
                        i + 1 < size ? i + 1 : -1});
  for (std::int32_t i = 0; i < size; ++i)
    if (Candidate made{}; candidate(i, made)) heap_.push_back(made);
  std::make_heap(heap_.begin(), heap_.end(), later);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Candidate first = heap_.back();
    heap_.pop_back();
    merge(first);
  }
  for (const Symbol& symbol : symbols_)
    if (symbol.id >= 0) ids.push_back(symbol.id);
}

}  // namespace weft::data
