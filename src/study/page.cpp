// Writes a study's page (declared in table.hpp).
#include <fmt/core.h>

#include <cmath>

#include "base/quoted.hpp"
#include "io/small_file.hpp"
#include "study/table.hpp"

namespace weft::study {
namespace {

constexpr const char* style =
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;width:100%}th,td{padding:.25em .6em;text-align:right;border-bottom:1px "
    "solid #ddd}"
    "th:nth-child(-n+2),td:nth-child(-n+2){text-align:left}.plots{display:flex;flex-wrap:wrap;gap:1em}"
    ".plots figure{flex:1 1 34em;margin:0;min-width:0}.plots svg{width:100%;height:auto}"
    "code{font-size:12px;word-break:break-all}.bad{color:#a00;text-align:left}.scroll{overflow-x:auto}";

/// An SVG file's picture, without what stands before it in the file.
std::string inline_svg(const std::string& path) {
  const std::string text = io::read_if_there(path).value_or("");
  const std::size_t at = text.find("<svg");
  return at == std::string::npos ? "" : text.substr(at);
}

std::string row_html(const Row& row) {
  std::string html = fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td>", xml_escaped(row.cell.series),
                                 xml_escaped(row.result ? row.result->mesh : ""), row.cell.ranks);
  if (!row.result || row.result->status != Status::done) {
    const std::string why = row.result
                                ? fmt::format("{}: {}", name_of(row.result->status), row.result->message)
                                : "not there yet";
    return html +
           fmt::format("<td class=\"bad\" colspan=\"{}\">{}</td></tr>\n", columns().size(), xml_escaped(why));
  }
  for (const Column& column : columns()) {
    const double value = (*row.result).*column.value * column.scale;
    html += std::isfinite(value) ? fmt::format("<td>{:.5g}</td>", value) : "<td></td>";
  }
  return html + "</tr>\n";
}

}  // namespace

void write_page(const Study& study, const std::vector<Row>& rows, const std::vector<std::string>& plots) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{0}</title><style>{1}</style></head><body>\n<h1>{0}</h1>\n",
      xml_escaped(study.name), style);
  html += "<div class=\"plots\">\n";
  for (const std::string& plot : plots)
    html += "<figure>" + inline_svg(study.dir + "/" + plot + ".svg") + "</figure>\n";
  html +=
      "</div>\n<p>Dashed: ideal scaling from the smallest number of ranks.</p>\n<div "
      "class=\"scroll\"><table><tr>"
      "<th>series</th><th>mesh</th><th>ranks</th>";
  for (const Column& column : columns()) html += fmt::format("<th>{}</th>", xml_escaped(column.title));
  html += "</tr>\n";
  for (const Row& row : rows) html += row_html(row);
  html += "</table></div>\n<h2>Commands</h2>\n";
  for (const Row& row : rows)
    if (row.result)
      html +=
          fmt::format("<p>{} <small>(weft {})</small><br><code>{}</code></p>\n", xml_escaped(row.cell.name),
                      xml_escaped(row.result->version), xml_escaped(row.result->command));
  io::replace_file(study.dir + "/index.html", html + "</body></html>\n");
}

}  // namespace weft::study
