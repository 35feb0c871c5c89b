#include "study/table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ckpt/columns_file.hpp"
#include "io/small_file.hpp"

namespace weft::study {
namespace {

/// The columns of text, and the number of ranks.
struct Words {
  const char* name;
  std::string (*of)(const Row&);
};
constexpr std::array words{
    Words{"cell", [](const Row& r) { return r.cell.name; }},
    Words{"series", [](const Row& r) { return r.cell.series; }},
    Words{"how", [](const Row& r) { return std::string(name_of(r.cell.how)); }},
    Words{"deck", [](const Row& r) { return r.cell.deck; }},
    Words{"mesh", [](const Row& r) { return r.result ? r.result->mesh : ""; }},
    Words{"status",
          [](const Row& r) { return std::string(r.result ? name_of(r.result->status) : "missing"); }},
    Words{"message", [](const Row& r) { return r.result ? r.result->message : ""; }},
    Words{"version", [](const Row& r) { return r.result ? r.result->version : ""; }},
    Words{"command", [](const Row& r) { return r.result ? r.result->command : ""; }},
};

double figure(const Row& row, const Column& column) {
  return row.result ? (*row.result).*column.value : std::nan("");
}

/// A field as RFC 4180 wants it.
std::string csv(const std::string& text) {
  if (text.find_first_of("\",\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

void write_csv(const std::string& path, const std::vector<Row>& rows) {
  std::string text;
  for (const Words& w : words) text += std::string(w.name) + ",";
  text += "ranks";
  for (const Column& c : columns()) text += std::string(",") + c.name;
  text += "\n";
  for (const Row& row : rows) {
    for (const Words& w : words) text += csv(w.of(row)) + ",";
    text += fmt::format("{}", row.cell.ranks);
    for (const Column& c : columns()) {
      const double value = figure(row, c);
      text += std::isfinite(value) ? fmt::format(",{:.9g}", value) : ",";
    }
    text += "\n";
  }
  io::replace_file(path, text);
}

void write_json(const std::string& path, const std::vector<Row>& rows) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json line;
    for (const Words& w : words) line[w.name] = w.of(row);
    line["ranks"] = row.cell.ranks;
    for (const Column& c : columns()) {
      const double value = figure(row, c);
      line[c.name] = std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
    }
    line["sets"] = row.cell.sets;
    out.push_back(std::move(line));
  }
  io::replace_file(path, out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void write_hdf5(const std::string& path, const std::vector<Row>& rows) {
  std::vector<ckpt::ColumnData> data;
  for (const Words& w : words) {
    std::vector<std::string> texts;
    for (const Row& row : rows) texts.push_back(w.of(row));
    data.push_back({w.name, std::move(texts)});
  }
  std::vector<double> ranks;
  for (const Row& row : rows) ranks.push_back(row.cell.ranks);
  data.push_back({"ranks", std::move(ranks)});
  for (const Column& c : columns()) {
    std::vector<double> values;
    for (const Row& row : rows) values.push_back(figure(row, c));
    data.push_back({c.name, std::move(values)});
  }
  ckpt::write_columns(path, data);
}

}  // namespace

const std::vector<Column>& columns() {
  static const std::vector<Column> all{
      {"tokens_per_s_rank", "tokens/s of a rank", &Result::tokens_per_s},
      {"step_s", "step, s", &Result::step_s},
      {"mfu", "MFU, %", &Result::mfu, 100},
      {"exposed_s", "exposed communication, s a step", &Result::exposed_s},
      {"idle_s", "idle in the pipe, s a step", &Result::idle_s},
      {"memory_bytes", "memory of the fullest rank, GiB", &Result::memory_bytes, 1.0 / (1 << 30)}};
  return all;
}

void write_tables(const Study& study, const std::vector<Row>& rows) {
  write_csv(study.dir + "/table.csv", rows);
  write_json(study.dir + "/table.json", rows);
  write_hdf5(study.dir + "/table.h5", rows);
}

std::string to_text(const std::vector<Row>& rows) {
  std::string text, series;
  for (const Row& row : rows) {
    if (row.cell.series != series) {
      series = row.cell.series;
      text += fmt::format("\n{}\n  {:>6}  {:<34} {:>10} {:>10} {:>7} {:>10} {:>10} {:>10}\n", series, "ranks",
                          "mesh", "tokens/s", "step, s", "MFU", "exposed, s", "idle, s", "memory");
    }
    if (!row.result) {
      text += fmt::format("  {:>6}  not there yet\n", row.cell.ranks);
      continue;
    }
    const Result& r = *row.result;
    if (r.status != Status::done) {
      text += fmt::format("  {:>6}  {}: {}\n", row.cell.ranks, name_of(r.status), r.message);
      continue;
    }
    const auto number = [](double x, const char* form) {
      return std::isfinite(x) ? fmt::format(fmt::runtime(form), x) : std::string("-");
    };
    text += fmt::format("  {:>6}  {:<34} {:>10} {:>10} {:>7} {:>10} {:>10} {:>10}\n", row.cell.ranks, r.mesh,
                        number(r.tokens_per_s, "{:.1f}"), number(r.step_s, "{:.4g}"),
                        number(100 * r.mfu, "{:.1f} %"), number(r.exposed_s, "{:.3g}"),
                        number(r.idle_s, "{:.3g}"), number(r.memory_bytes / (1 << 30), "{:.2f} GiB"));
  }
  return text;
}

}  // namespace weft::study
