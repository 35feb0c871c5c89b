// Makes the figures of a study: `weft study`.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "study/study_file.hpp"

namespace weft::study {

struct Options {
  std::string file;     ///< the study's, for jobs
  std::string program;  ///< this program, for runs and jobs
  bool again = false;   ///< makes figures that are there, too
};

/// How many cells have figures, failed, and are yet to come.
struct Progress {
  std::size_t done = 0, failed = 0, missing = 0;
};

/// Makes the figures that are missing: simulates, runs, and submits jobs, whose figures the next call finds.
/// A job that failed or was refused is told, and submitted again by a call after one that left none missing
/// or some failed. Then it writes tables, plots and page. `tell` gets a line for each cell, and the table at
/// the end.
Progress make(const Study& study, const Options& options,
              const std::function<void(const std::string&)>& tell);

/// Makes the figures of the cell of this name here: a member of a job does that. Throws Error(bad_input)
/// where there is none.
Progress make_cell(const Study& study, const std::string& name, const Options& options);

}  // namespace weft::study
