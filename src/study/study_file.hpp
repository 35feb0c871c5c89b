// The file of a scaling study: which decks, on how many ranks, with which settings, run where.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::study {

/// Where a cell's figures come from.
enum class How : std::uint8_t {
  run,      ///< a run on this machine
  slurm,    ///< a run in a job
  simulate  ///< a plan for a machine that need not be here
};
std::string_view name_of(How how);

/// One run or simulation of a study: a place in its table.
struct Cell {
  std::string name;    ///< unique in the study, and a directory's name: "1-simulate-llama3_8b-h100-64"
  std::string series;  ///< what it has in common with the cells of other numbers of ranks
  How how = How::run;
  std::string deck;               ///< the deck's file
  std::vector<std::string> sets;  ///< "table.key=value", later ones win
  int ranks = 1;
};

struct Study {
  std::string name;
  std::string dir;                  ///< where everything goes
  std::string launch;               ///< the words before the program's name, "{ranks}" for their number
  std::vector<std::string> sbatch;  ///< options of every job
  std::vector<Cell> cells;          ///< in the order of the file
};

/// Reads the study. Throws Error(bad_input) with a line for each mistake in the file, "FILE:LINE: KEY:
/// PROBLEM". Without any it throws the mistakes of the first deck of a cell that has some, each after
/// "FILE:LINE: part N: ".
Study read_study(const std::string& path);

}  // namespace weft::study
