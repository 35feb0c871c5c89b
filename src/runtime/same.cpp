#include "runtime/same.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/build_id.hpp"
#include "base/check.hpp"
#include "base/device.hpp"
#include "base/version.hpp"
#include "comm/agree.hpp"
#include "kernels/device_properties.hpp"
#include "kernels/matmul.hpp"
#include "kernels/space.hpp"

namespace weft::runtime {
namespace {

constexpr std::size_t most_told = 5;

/// Differences as text, "optimizer.lr is 0.001, and 0.002 on rank 0"; when there are many, the first ones.
class Differences {
 public:
  explicit Differences(int first_rank = 0) : first_rank_(first_rank) {}
  void add(std::string_view name, std::string_view mine, std::string_view first) {
    if (++count_ <= most_told)
      text_ += fmt::format("{}{} is {}, and {} on rank {}", text_.empty() ? "" : "; ", name, mine, first,
                           first_rank_);
  }
  bool none() const { return count_ == 0; }
  std::string text() const {
    return count_ > most_told ? fmt::format("{}; and {} more", text_, count_ - most_told) : text_;
  }

 private:
  int first_rank_;
  std::string text_;
  std::size_t count_ = 0;
};

const std::string& shown(const Fact& fact) {
  return fact.shown.empty() ? fact.value : fact.shown;
}

/// The facts as lines, three for each; none of their texts has a line end.
std::string joined(const std::vector<Fact>& facts) {
  std::string text;
  for (const Fact& fact : facts) text += fmt::format("{}\n{}\n{}\n", fact.name, fact.value, fact.shown);
  return text;
}

std::vector<Fact> split(std::string_view text) {
  const auto next = [&text] {
    const std::string line(text.substr(0, text.find('\n')));
    text.remove_prefix(line.size() + 1);
    return line;
  };
  std::vector<Fact> facts;
  while (!text.empty()) {
    Fact fact;
    fact.name = next();
    fact.value = next();
    fact.shown = next();
    facts.push_back(std::move(fact));
  }
  return facts;
}

Differences differences(const std::vector<Fact>& mine, const std::vector<Fact>& first, int first_rank) {
  Differences found(first_rank);
  for (std::size_t i = 0; i < std::max(mine.size(), first.size()); ++i) {
    if (i >= first.size())
      found.add(mine[i].name, shown(mine[i]), "missing");
    else if (i >= mine.size())
      found.add(first[i].name, "missing", shown(first[i]));
    else if (mine[i].name != first[i].name || mine[i].value != first[i].value)
      found.add(mine[i].name, shown(mine[i]), shown(first[i]));
  }
  return found;
}

/// Whether the key may differ: it is a path of files whose content is compared once all ranks have opened
/// them.
bool may_differ(const KeyChange& change) {
  constexpr std::array<std::string_view, 2> lists{"data.train", "data.valid"};
  if (change.key == "model.init") return change.from != "\"\"" && change.to != "\"\"";
  return std::find(lists.begin(), lists.end(), change.key) != lists.end();
}

}  // namespace

void check_same(comm::World& world, const std::vector<Fact>& facts, const std::string& advice,
                const Groups& groups) {
  const std::string mine = joined(facts);
  std::vector<Fact> first;
  for (std::size_t group = 0; group < groups.first_ranks.size(); ++group) {
    std::string told = world.broadcast(mine, groups.first_ranks[group]);
    if (group == static_cast<std::size_t>(groups.own)) first = split(told);
  }
  const int first_rank = groups.first_ranks[static_cast<std::size_t>(groups.own)];
  comm::agree(world, [&] {
    const Differences found = differences(facts, first, first_rank);
    WEFT_VALIDATE(found.none(), "{} (the ranks differ); {}", found.text(), advice);
  });
}

void check_same_deck(comm::World& world, const Deck& deck) {
  const std::string mine = print_deck(deck);
  const std::string first = world.broadcast(mine, 0);
  comm::agree(world, [&] {
    if (first == mine) return;
    Differences found;
    for (const KeyChange& c : changes(parse_deck_text(first, "rank 0's deck"), deck))
      if (!may_differ(c)) found.add(c.key, c.to, c.from);
    WEFT_VALIDATE(
        found.none(),
        "{} (the ranks were given different decks); start all with the same deck and the same --set",
        found.text());
  });
}

void check_same_build(comm::World& world) {
  const std::string build = program_build_id();
  check_same(world,
             {{"weft's version", fmt::format("{} ({})", weft_version(), weft_git_hash())},
              {"weft's build", build, build.substr(0, 12)}},
             "start all ranks from one installation");
}

void check_same_machine(comm::World& world, const Deck& deck) {
  const std::string lanes = std::to_string(kernels::concurrency());
  std::vector<Fact> facts{
      {"what computes products",
       std::string(kernels::product_method(deck.precision.params, deck.precision.f32_products))}};
  if (device_is_host()) {
    facts.push_back({"the number of threads (OMP_NUM_THREADS)", lanes});
    facts.push_back({"the instruction set of products (as oneDNN counts them)",
                     fmt::format("{:#x}", kernels::product_instructions())});
  } else {
    facts.push_back({"the number of the device's threads", lanes});
    for (const auto& [name, value] : kernels::device_properties()) facts.push_back({name, value});
  }
  check_same(
      world, facts,
      "start all ranks with as many threads, on equal processors or devices, and with equal libraries");
}

}  // namespace weft::runtime
