#include "compare/compare_hashes.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace weft::compare {
namespace {

using Key = std::pair<std::string_view, std::string_view>;  ///< phase and name

std::map<Key, const ValueHash*> by_key(const StepHashes& hashes) {
  std::map<Key, const ValueHash*> values;
  for (const ValueHash& v : hashes.values) values.emplace(Key(v.phase, v.value), &v);
  return values;
}

/// The axes behind the names of values (value_hashes.hpp).
std::set<std::string_view> cuts_of(const StepHashes& hashes) {
  std::set<std::string_view> cuts;
  for (const ValueHash& v : hashes.values)
    cuts.insert(std::string_view(v.value).substr(std::min(v.value.find(' '), v.value.size())));
  return cuts;
}

struct StepComparison {
  std::size_t common = 0;
  std::optional<Parting> parting;
};

StepComparison compare_step(const StepHashes& a, const StepHashes& b) {
  StepComparison result;
  const auto in_b = by_key(b);
  for (const ValueHash& value : a.values) {
    const auto other = in_b.find(Key(value.phase, value.value));
    if (other == in_b.end()) continue;
    ++result.common;
    const bool differs = other->second->hash != value.hash;
    if (result.parting) {
      ++result.parting->after;
      result.parting->differing_after += differs ? 1 : 0;
    } else if (differs) {
      result.parting = Parting{a.step, value, *other->second};
    }
  }
  return result;
}

}  // namespace

Comparison compare_hashes(std::span<const StepHashes> a, std::span<const StepHashes> b) {
  std::map<std::int64_t, std::pair<const StepHashes*, const StepHashes*>> steps;
  for (const StepHashes& s : a) steps[s.step].first = &s;
  for (const StepHashes& s : b) steps[s.step].second = &s;
  Comparison result;
  for (const auto& [step, pair] : steps) {
    if (pair.first == nullptr || pair.second == nullptr) continue;
    const StepComparison here = compare_step(*pair.first, *pair.second);
    if (here.common == 0) continue;
    if (result.steps.empty()) {
      result.only_in_a = pair.first->values.size() - here.common;
      result.only_in_b = pair.second->values.size() - here.common;
      result.cut_alike = cuts_of(*pair.first) == cuts_of(*pair.second);
    }
    result.steps.push_back(step);
    result.equal_steps += here.parting ? 0 : 1;
    if (!result.parting) result.parting = here.parting;
  }
  return result;
}

}  // namespace weft::compare
