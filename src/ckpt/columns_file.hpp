// Writes tables to HDF5: a dataset a column.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace weft::ckpt {

struct ColumnData {
  std::string name;
  std::variant<std::vector<double>, std::vector<std::string>> values;  ///< of all rows
};

/// Writes the columns as one-dimensional datasets (f64, or variable-length UTF-8) in the file's root. What
/// was at `path` is replaced once the new file is whole. Throws Error(environment) where it cannot be
/// written.
void write_columns(const std::string& path, const std::vector<ColumnData>& columns);

}  // namespace weft::ckpt
