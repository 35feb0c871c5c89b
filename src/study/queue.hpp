// Runs a study's cells in jobs of Slurm.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "study/study_file.hpp"

namespace weft::study {

/// The cell's job as Slurm names it, "42_0"; empty where it was never submitted, or the job was forgotten.
std::string job_of(const Study& study, const Cell& cell);
/// Whether the cell's job waits or runs, as far as Slurm knows.
bool is_queued(const Study& study, const Cell& cell);
/// Forgets the cell's job, because the user knows what became of it.
void forget_job(const Study& study, const Cell& cell);

/// Submits the cells (by their numbers in the study) as job arrays, one for each number of ranks, each of
/// whose members runs `weft study FILE --cell NAME`. Returns a line for each job. Throws Error(environment)
/// where sbatch refuses; the cells that it refuses keep the figures and the jobs that they had.
std::vector<std::string> submit(const Study& study, const std::vector<std::size_t>& cells,
                                const std::string& program, const std::string& file);

}  // namespace weft::study
