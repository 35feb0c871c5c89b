#include "study/cell.hpp"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/hash.hpp"
#include "compile/machine_profile.hpp"
#include "deck/deck.hpp"
#include "io/small_file.hpp"

namespace weft::study {
namespace {

using nlohmann::json;

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// The figures by their names in the file.
template <class R>
auto figures(R& r) {
  return std::array{std::pair("step_s", &r.step_s), std::pair("tokens_per_s_rank", &r.tokens_per_s),
                    std::pair("mfu", &r.mfu),       std::pair("exposed_s", &r.exposed_s),
                    std::pair("idle_s", &r.idle_s), std::pair("memory_bytes", &r.memory_bytes)};
}

}  // namespace

Result::Result()
    : step_s(unknown),
      tokens_per_s(unknown),
      mfu(unknown),
      exposed_s(unknown),
      idle_s(unknown),
      memory_bytes(unknown) {}

std::string_view name_of(Status status) {
  switch (status) {
    case Status::done: return "done";
    case Status::failed: return "failed";
    case Status::refused: return "refused";
  }
  return "?";
}

std::string key_of(const Study& study, const Cell& cell) {
  Deck deck = parse_deck(cell.deck, cell.sets);
  std::string text = fmt::format("{} {}\n{}", name_of(cell.how), cell.ranks, print_deck(deck));
  text += cell.how == How::simulate ? print_profile(compile::machine_profile(deck))
                                    : study.launch + compile::profile_text(deck);
  return fmt::format("{:016x}", hash_bytes(text.data(), text.size()));
}

std::string directory_of(const Study& study, const Cell& cell) {
  return study.dir + "/" + cell.name;
}

std::optional<Result> read_result(const Study& study, const Cell& cell) {
  const auto text = io::read_if_there(directory_of(study, cell) + "/result.json");
  if (!text) return std::nullopt;
  const json read = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto word = [&](const char* name) {
    const auto found = read.find(name);
    return found != read.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  if (!read.is_object() || word("key") != key_of(study, cell)) return std::nullopt;
  Result result;
  result.key = word("key");
  for (const Status status : {Status::failed, Status::refused})
    if (word("status") == name_of(status)) result.status = status;
  result.message = word("message");
  result.version = word("version");
  result.mesh = word("mesh");
  result.command = word("command");
  for (const auto& [name, value] : figures(result))
    if (const auto found = read.find(name); found != read.end() && found->is_number()) *value = *found;
  return result;
}

void remove_result(const Study& study, const Cell& cell) {
  std::filesystem::remove(directory_of(study, cell) + "/result.json");
}

void write_result(const Study& study, const Cell& cell, const Result& result) {
  json out{{"cell", cell.name},         {"series", cell.series},
           {"how", name_of(cell.how)},  {"deck", cell.deck},
           {"sets", cell.sets},         {"ranks", cell.ranks},
           {"key", result.key},         {"status", name_of(result.status)},
           {"message", result.message}, {"version", result.version},
           {"mesh", result.mesh},       {"command", result.command}};
  for (const auto& [name, value] : figures(result)) out[name] = std::isfinite(*value) ? json(*value) : json();
  io::replace_file(directory_of(study, cell) + "/result.json",
                   out.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace weft::study
