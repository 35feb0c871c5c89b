#include "compare/compare_runs.hpp"

#include <fmt/core.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "compare/compare_hashes.hpp"
#include "deck/deck.hpp"
#include "io/named_path.hpp"
#include "io/step_lines.hpp"

namespace weft::compare {
namespace {

bool both_have(const std::string& a, const std::string& b, const char* file) {
  return io::is_there(a + file) && io::is_there(b + file);
}

std::string deck_text(const std::string& a, const std::string& b) {
  std::string text;
  for (const KeyChange& c : changes(read_saved_deck(a + "/deck.toml"), read_saved_deck(b + "/deck.toml")))
    if (c.key != "run.name" && c.key != "run.dir")
      text += fmt::format("  {}: {} and {}\n", c.key, c.from, c.to);
  return text.empty() ? "decks: equal\n" : "decks differ:\n" + text;
}

std::vector<StepHashes> hashes_of(const std::string& dir) {
  return read_hashes(dir + "/hashes.jsonl");
}

/// The training lines of a run as steps of values, in the order in which a step makes them.
std::vector<StepHashes> metrics_of(const std::string& dir) {
  const std::string path = dir + "/metrics.jsonl";
  std::vector<StepHashes> steps;
  int number = 0;
  for (const nlohmann::json& line : io::read_step_lines(path)) {
    ++number;
    if (const auto kind = line.find("kind"); kind == line.end() || *kind != "train") continue;
    StepHashes step{line.at("step").get<std::int64_t>(), {}};
    for (const char* name : {"tokens", "loss", "grad_norm", "lr", "state_hash"}) {
      const auto field = line.find(name);
      if (field == line.end()) continue;
      // A damaged line may nest so deeply that to print it takes all of the stack.
      WEFT_VALIDATE(field->is_primitive(), "{}:{}: {} is neither a number nor text (the file is damaged)",
                    path, number, name);
      step.values.push_back({"metrics", "", name, "", field->dump()});
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

std::string counts(const char* what, const Comparison& c) {
  return fmt::format("{}: {} steps in both ({} to {}), {} equal\n", what, c.steps.size(), c.steps.front(),
                     c.steps.back(), c.equal_steps == c.steps.size() ? "all" : std::to_string(c.equal_steps));
}

std::string hashes_text(const Comparison& c) {
  std::string text = counts("hashes", c);
  if (c.parting) {
    const Parting& p = *c.parting;
    text += fmt::format("  the runs part at step {}, in {} of {}: {} ({}) has {} and {}\n", p.step,
                        p.in_a.phase, p.in_a.module, p.in_a.value, p.in_a.op, p.in_a.hash, p.in_b.hash);
    if (p.in_a.op == "state")
      text += "  the step began with it: it is data or a setting, or comes from an earlier step\n";
    text += fmt::format("  of the {} values after it, {} differ\n", p.after, p.differing_after);
  }
  if (c.only_in_a + c.only_in_b > 0)
    text += fmt::format("  not compared: {} values of the first run only, {} of the second only\n",
                        c.only_in_a, c.only_in_b);
  if (!c.cut_alike)
    text +=
        "  an axis tensor or context has another size: what it cuts is not compared, and sums differ in "
        "their "
        "last digits\n";
  return text;
}

std::string metrics_text(const Comparison& c) {
  std::string text = counts("metrics", c);
  if (c.parting)
    text += fmt::format("  they part at step {}: {} is {} and {}\n", c.parting->step, c.parting->in_a.value,
                        c.parting->in_a.hash, c.parting->in_b.hash);
  return text;
}

}  // namespace

RunComparison compare_runs(const std::string& dir_a, const std::string& dir_b) {
  for (const std::string& dir : {dir_a, dir_b})
    WEFT_VALIDATE(io::is_directory(dir), "{} is not a directory (name two run directories)", dir);
  RunComparison result{true, deck_text(dir_a, dir_b)};
  std::size_t steps = 0;
  const auto add = [&](auto read, auto text) {
    const std::vector<StepHashes> a = read(dir_a), b = read(dir_b);
    const Comparison c = compare_hashes(a, b);
    steps += c.steps.size();
    result.equal = result.equal && !c.parting;
    if (!c.steps.empty()) result.text += text(c);
  };
  if (both_have(dir_a, dir_b, "/hashes.jsonl")) add(hashes_of, hashes_text);
  const bool hashed = steps > 0;
  // Metrics may be missing where there are hashes to go by; otherwise that is an error.
  if (!hashed || both_have(dir_a, dir_b, "/metrics.jsonl")) add(metrics_of, metrics_text);
  WEFT_VALIDATE(steps > 0, "{} and {} have no step in common", dir_a, dir_b);
  if (!hashed)
    result.text += "no hashed step in both: set debug.hash_every to learn in which module runs part\n";
  return result;
}

}  // namespace weft::compare
