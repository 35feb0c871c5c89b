// What a study leaves behind: a table in three formats, plots, and a page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "study/cell.hpp"

namespace weft::study {

/// A cell with its figures, where it has any yet.
struct Row {
  Cell cell;
  std::optional<Result> result;
};

/// A figure that the table and the plots show.
struct Column {
  const char* name;   ///< "tokens_per_s_rank"
  const char* title;  ///< "tokens/s of a rank"
  double Result::*value;
  double scale = 1;  ///< in plots
};
const std::vector<Column>& columns();

/// Writes table.csv, table.json and table.h5 into the study's directory.
void write_tables(const Study& study, const std::vector<Row>& rows);
/// The table for a terminal.
std::string to_text(const std::vector<Row>& rows);

/// Draws a plot of each column over the ranks, NAME.svg and NAME.png, by gnuplot. Returns the names of those
/// that were drawn: none where there is no gnuplot, or where no column has figures.
std::vector<std::string> draw_plots(const Study& study, const std::vector<Row>& rows);

/// Writes index.html with the plots and the table in it; it needs no other file.
void write_page(const Study& study, const std::vector<Row>& rows, const std::vector<std::string>& plots);

}  // namespace weft::study
