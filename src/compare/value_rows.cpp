#include "compare/value_rows.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace weft::compare {
namespace {

using nlohmann::json;

std::string text_of(const std::vector<ValueRow>& rows) {
  json lines = json::array();
  for (const auto& [place, value] : rows)
    lines.push_back(json::array(
        {place.section, place.stage, place.index, value.phase, value.module, value.value, value.op}));
  return lines.dump();
}

std::vector<ValueRow> rows_of(const std::string& text) {
  std::vector<ValueRow> rows;
  for (const json& line : json::parse(text))
    rows.push_back({{line[0], line[1], line[2]}, {line[3], line[4], line[5], line[6], {}}});
  return rows;
}

/// A row of one place on the pipe, by its number there.
struct OneRow {
  ValueRow row;
  int pipe_rank = 0;
  std::size_t number = 0;
};

}  // namespace

CommonRows common_rows(runtime::Session& session, const std::vector<ValueRow>& own) {
  const std::string mine = text_of(own);
  std::vector<OneRow> all;
  int pipe_rank = 0;
  for (const int first : session.mesh().pipe_firsts()) {
    std::vector<ValueRow> rows = rows_of(session.world().broadcast(mine, first));
    for (std::size_t i = 0; i < rows.size(); ++i) all.push_back({std::move(rows[i]), pipe_rank, i});
    ++pipe_rank;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const OneRow& a, const OneRow& b) { return a.row.place < b.row.place; });
  CommonRows common{{}, std::vector<std::size_t>(own.size()), std::vector<bool>(own.size())};
  std::map<std::pair<std::string, std::string>, std::size_t> by_name;
  for (OneRow& one : all) {
    const std::pair name(one.row.value.phase, one.row.value.value);
    const auto [known, is_new] = by_name.emplace(name, common.rows.size());
    if (is_new) common.rows.push_back(std::move(one.row));
    if (one.pipe_rank != session.pipe_rank()) continue;
    common.row_of[one.number] = known->second;
    common.counted[one.number] = is_new;
  }
  return common;
}

}  // namespace weft::compare
