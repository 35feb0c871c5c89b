#include "study/study.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/check.hpp"
#include "deck/deck.hpp"
#include "io/small_file.hpp"
#include "study/cell.hpp"
#include "study/queue.hpp"
#include "study/table.hpp"

namespace weft::study {
namespace {

/// Makes a cell's figures and keeps them, beside the deck that they are of.
Result make_result(const Study& study, const Cell& cell, const std::string& program) {
  const std::string dir = directory_of(study, cell);
  io::make_directories(dir);
  io::replace_file(dir + "/deck.toml", print_deck(parse_deck(cell.deck, cell.sets)));
  remove_result(study, cell);
  Result result = cell.how == How::simulate ? simulate(study, cell) : run(study, cell, program);
  write_result(study, cell, result);
  return result;
}

/// Whether there is nothing left to try. What a plan refuses it would refuse again, but a run may have lacked
/// a file.
bool is_final(const Cell& cell, const std::optional<Result>& result) {
  return result &&
         (result->status == Status::done || (result->status == Status::refused && cell.how == How::simulate));
}

/// What became of a cell whose job is over; nothing where it has to be submitted: its deck has changed since,
/// or an earlier call has told what became of it.
std::optional<Result> outcome_of_job(const Study& study, const Cell& cell) {
  const std::string job = job_of(study, cell), dir = directory_of(study, cell);
  if (job.empty()) return std::nullopt;
  // A network file system may still say that the file is not there; to list the directory asks its server.
  std::error_code unlisted;
  const std::filesystem::directory_iterator asked(dir, unlisted);
  if (std::filesystem::exists(dir + "/result.json")) return read_result(study, cell);
  Result result;
  result.status = Status::failed;
  result.message = fmt::format(
      "job {0} ended without a result (cancelled, out of time, killed); see {1}/job-{0}.log", job, study.dir);
  return result;
}

std::string line_of(const Result& result) {
  return fmt::format("{}{}", name_of(result.status),
                     result.message.empty() ? "" : " (" + result.message + ")");
}

Progress progress_of(const std::vector<Row>& rows) {
  Progress progress;
  for (const Row& row : rows) {
    if (!row.result) {
      ++progress.missing;
    } else {
      ++(row.result->status == Status::failed ? progress.failed : progress.done);
    }
  }
  return progress;
}

}  // namespace

Progress make(const Study& study, const Options& options,
              const std::function<void(const std::string&)>& tell) {
  io::make_directories(study.dir);
  std::vector<Row> rows;
  std::vector<std::size_t> jobs, over;
  for (std::size_t i = 0; i < study.cells.size(); ++i) {
    const Cell& cell = study.cells[i];
    Row row{cell, options.again ? std::nullopt : read_result(study, cell)};
    if (!is_final(cell, row.result)) {
      const std::string place = fmt::format("[{}/{}] {}", i + 1, study.cells.size(), cell.name);
      if (cell.how == How::slurm) {
        const bool queued = is_queued(study, cell);
        // The job may have ended since its result was read.
        row.result = queued || options.again ? std::nullopt : outcome_of_job(study, cell);
        if (queued) {
          tell(place + ": its job is queued or runs");
        } else if (row.result) {
          tell(place + ": " + line_of(*row.result));
          over.push_back(i);
        } else {
          jobs.push_back(i);
        }
      } else {
        row.result = make_result(study, cell, options.program);
        tell(place + ": " + line_of(*row.result));
      }
    }
    rows.push_back(std::move(row));
  }
  if (!jobs.empty())
    for (const std::string& line : submit(study, jobs, options.program, options.file)) tell(line);
  write_tables(study, rows);
  const std::vector<std::string> plots = draw_plots(study, rows);
  const bool any = std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row.result && row.result->status == Status::done;
  });
  write_page(study, rows, plots);
  tell(to_text(rows));
  tell(fmt::format("written: {0}/index.html, table.csv, table.json, table.h5{1}", study.dir,
                   any && plots.empty() ? " (no plots: they need gnuplot, Debian: gnuplot-nox)" : ""));
  const Progress progress = progress_of(rows);
  // A script may call for as long as jobs are under way. What it is told meanwhile must not be tried again,
  // or there would always be a job under way.
  if (progress.missing == 0 || progress.failed > 0)
    for (const std::size_t i : over) forget_job(study, study.cells[i]);
  return progress;
}

Progress make_cell(const Study& study, const std::string& name, const Options& options) {
  for (const Cell& cell : study.cells)
    if (cell.name == name) return progress_of({{cell, make_result(study, cell, options.program)}});
  throw Error(ExitCode::bad_input,
              fmt::format("--cell {}: the study {} has no such cell", name, options.file));
}

}  // namespace weft::study
