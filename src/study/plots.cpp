// Draws a study's figures by gnuplot (declared in table.hpp).
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "io/small_file.hpp"
#include "study/child.hpp"
#include "study/table.hpp"

namespace weft::study {
namespace {

/// The points of a column, by series in the order of the table.
using Points = std::vector<std::pair<std::string, std::map<int, double>>>;

Points points_of(const std::vector<Row>& rows, const Column& column) {
  Points points;
  for (const Row& row : rows) {
    if (!row.result || !std::isfinite((*row.result).*column.value)) continue;
    auto at =
        std::find_if(points.begin(), points.end(), [&](const auto& p) { return p.first == row.cell.series; });
    if (at == points.end()) at = points.insert(points.end(), {row.cell.series, {}});
    at->second[row.cell.ranks] = (*row.result).*column.value * column.scale;
  }
  return points;
}

/// A text inside gnuplot's single quotes, where nothing but these is special. In double quotes gnuplot runs
/// what stands in backticks.
std::string gnuplot_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

/// A script that draws the points. For tokens/s a dashed line is what each series would have if its smallest
/// number of ranks scaled ideally.
std::string script_of(const Points& points, const Column& column, const std::string& terminal,
                      const std::string& output) {
  std::string data, lines;
  const bool ideal = column.value == &Result::tokens_per_s;
  for (std::size_t i = 0; i < points.size(); ++i) {
    data += fmt::format("$s{} << EOD\n", i);
    for (const auto& [ranks, value] : points[i].second) data += fmt::format("{} {:.9g}\n", ranks, value);
    data += "EOD\n";
    lines += fmt::format("{}$s{} using 1:2 with linespoints lw 2 pt 7 lc {} title {} noenhanced",
                         i == 0 ? "" : ", ", i, i + 1, gnuplot_quoted(points[i].first));
    if (ideal)
      lines += fmt::format(", $s{} using 1:({:.9g}) with lines dt 2 lc {} notitle", i,
                           points[i].second.begin()->second, i + 1);
  }
  return data + fmt::format(
                    "set terminal {}\nset output {}\nset logscale x 2\nset xlabel 'ranks'\nset ylabel {} "
                    "noenhanced\nset yrange [0:*]\nset grid\nset key below\nplot {}\n",
                    terminal, gnuplot_quoted(output), gnuplot_quoted(column.title), lines);
}

}  // namespace

std::vector<std::string> draw_plots(const Study& study, const std::vector<Row>& rows) {
  std::vector<std::string> drawn;
  for (const Column& column : columns()) {
    const Points points = points_of(rows, column);
    if (points.empty()) continue;
    const std::string base = study.dir + "/" + column.name;
    const std::string height = fmt::format("{}", 420 + 18 * static_cast<int>(points.size()));
    io::replace_file(
        base + ".gnuplot",
        script_of(points, column, "svg size 820," + height + " font 'sans-serif,13'", base + ".svg") +
            script_of(points, column, "pngcairo size 820," + height + " font 'sans-serif,11'",
                      base + ".png"));
    const std::string log = base + ".log";
    if (run_child({"gnuplot", base + ".gnuplot"}, log) != 0) continue;  // its log says why
    std::filesystem::remove(log);
    drawn.emplace_back(column.name);
  }
  return drawn;
}

}  // namespace weft::study
