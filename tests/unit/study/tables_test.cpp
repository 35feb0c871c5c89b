// Tests what a study leaves for others: its tables, which say the same in each format, and its page.
#include "study/table.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "study/cell.hpp"
#include "study/study_file.hpp"
#include "support/temporary_directory.hpp"

namespace weft::study {
namespace {

/// The records of a CSV text (RFC 4180), whose lines end with "\n" here.
std::vector<std::vector<std::string>> csv_records(const std::string& text) {
  std::vector<std::vector<std::string>> records{{""}};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && quoted && text[i + 1] == '"') {
      records.back().back() += text[i++];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      records.back().emplace_back();
    } else if (!quoted && c == '\n') {
      records.push_back({""});
    } else if (quoted || c != '\r') {
      records.back().back() += c;
    }
  }
  records.pop_back();  // begun behind the last line
  return records;
}

/// A dataset of an HDF5 file that has texts.
std::vector<std::string> texts_of(hid_t set, std::size_t rows) {
  const hid_t type = H5Dget_type(set), space = H5Dget_space(set);
  std::vector<char*> read(rows);
  EXPECT_GE(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, read.data()), 0);
  std::vector<std::string> texts;
  for (const char* text : read) texts.emplace_back(text == nullptr ? "" : text);  // null: nothing is stored
  H5Dvlen_reclaim(type, space, H5P_DEFAULT, read.data());
  H5Sclose(space);
  H5Tclose(type);
  return texts;
}

/// Rows with and without figures, whose texts end with `end` and say what they are.
std::vector<Row> rows_with(const std::string& end) {
  std::vector<Row> rows(4);
  double figure = 1.0 / 3;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].cell = {"cell" + end, "series" + end, How::slurm,
                    "deck" + end, {"set" + end},  static_cast<int>(i) + 1};
    if (i == 3) continue;  // not there yet
    Result& result = rows[i].result.emplace();
    result.mesh = "mesh" + end;
    result.version = "version" + end;
    result.command = "command" + end;
    if (i == 0)
      for (const Column& column : columns()) result.*column.value = figure *= 3.7;
    if (i == 1) result.step_s = 1e-7;
    if (i == 2) {
      result.status = Status::refused;
      result.message = "message" + end;
    }
  }
  return rows;
}

/// Each of these characters has a meaning in one of the formats.
TEST(StudyTables, SayTheSameInAllFormats) {
  const test::TemporaryDirectory directory;
  Study s;
  s.dir = directory.path();
  std::vector<Row> rows;
  for (const char* end : {"", ",", "\"", "\"\"", "\n", "\r", ", \"<&>\",\r\n"})
    for (Row& row : rows_with(end)) rows.push_back(std::move(row));
  write_tables(s, rows);
  const auto json = nlohmann::ordered_json::parse(test::read_file(directory / "table.json"));
  const std::vector<std::vector<std::string>> csv = csv_records(test::read_file(directory / "table.csv"));
  ASSERT_EQ(json.size(), rows.size());
  ASSERT_EQ(csv.size(), 1 + rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Result result = rows[i].result.value_or(Result());
    const Cell& cell = rows[i].cell;
    nlohmann::ordered_json row{{"cell", cell.name},
                               {"series", cell.series},
                               {"how", "slurm"},
                               {"deck", cell.deck},
                               {"mesh", result.mesh},
                               {"status", rows[i].result ? name_of(result.status) : "missing"},
                               {"message", result.message},
                               {"version", result.version},
                               {"command", result.command},
                               {"ranks", cell.ranks},
                               {"tokens_per_s_rank", result.tokens_per_s},
                               {"step_s", result.step_s},
                               {"mfu", result.mfu},
                               {"exposed_s", result.exposed_s},
                               {"idle_s", result.idle_s},
                               {"memory_bytes", result.memory_bytes},
                               {"sets", cell.sets}};
    EXPECT_EQ(json[i].dump(), row.dump()) << "what is not known is null";
  }
  const hid_t file = H5Fopen((directory / "table.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  H5G_info_t root;
  EXPECT_GE(H5Gget_info(file, &root), 0);
  EXPECT_EQ(root.nlinks, csv.front().size());
  EXPECT_EQ(csv.front().size() + 1, json.front().size()) << "all but the settings, which are a list";
  for (std::size_t column = 0; column < csv.front().size(); ++column) {
    const std::string& name = csv.front()[column];
    SCOPED_TRACE(name);
    const hid_t set = H5Dopen2(file, name.c_str(), H5P_DEFAULT), space = H5Dget_space(set);
    ASSERT_EQ(H5Sget_simple_extent_ndims(space), 1);
    ASSERT_EQ(H5Sget_simple_extent_npoints(space), static_cast<hssize_t>(rows.size()));
    const bool is_text = json.front().at(name).is_string();
    const std::vector<std::string> texts =
        is_text ? texts_of(set, rows.size()) : std::vector<std::string>(rows.size());
    std::vector<double> numbers(rows.size());
    if (!is_text) {
      EXPECT_GE(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), 0);
    }
    H5Sclose(space);
    H5Dclose(set);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto& value = json[i].at(name);
      ASSERT_EQ(csv[1 + i].size(), csv.front().size());
      const std::string& field = csv[1 + i][column];
      if (is_text) {
        EXPECT_EQ(field, value.get<std::string>());
        EXPECT_EQ(texts[i], value.get<std::string>());
      } else if (value.is_null()) {
        EXPECT_EQ(field, "");
        EXPECT_TRUE(std::isnan(numbers[i])) << numbers[i];
      } else {
        EXPECT_NEAR(std::stod(field), value.get<double>(), 1e-8 * value.get<double>());
        EXPECT_EQ(numbers[i], value.get<double>());
      }
    }
  }
  H5Fclose(file);
}

/// A browser shows what names say, and does nothing else with it.
TEST(StudyPage, HasNamesAsText) {
  const test::TemporaryDirectory directory;
  Study s;
  s.name = "study<i>&";
  s.dir = directory.path();
  write_page(s, rows_with("<i>&"), {});
  const std::string page = test::read_file(directory / "index.html");
  EXPECT_EQ(page.find("<i>"), std::string::npos) << page;
  for (const char* what :
       {"<title>study", "<h1>study", "series", "mesh", "message", "cell", "version", "command"})
    EXPECT_NE(page.find(what + std::string("&lt;i&gt;&amp;")), std::string::npos) << what;
}

}  // namespace
}  // namespace weft::study
