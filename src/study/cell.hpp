// What is known of a cell of a study: its figures, kept in a file of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "study/study_file.hpp"

namespace weft::study {

enum class Status : std::uint8_t {
  done,
  failed,   ///< the run ended with an error
  refused,  ///< the plan does not fit the machine, or sizes do not divide
};
std::string_view name_of(Status status);

/// A cell's figures. What is not known is not a number.
struct Result {
  std::string key;  ///< hash of all that the figures depend on but the program
  Status status = Status::done;
  std::string message;               ///< why there are no figures
  std::string version;               ///< of the program that made them
  std::string mesh;                  ///< "pipe 2 x data 4"
  std::string command;               ///< what was run
  double step_s, tokens_per_s, mfu;  ///< medians; tokens a second of one rank; MFU as a share
  double exposed_s;                  ///< communication that nothing hides, idle time in a pipe not included
  double idle_s;                     ///< time that the slowest rank waits for other stages
  double memory_bytes;               ///< of the fullest rank: resident, or planned where simulated
  Result();
};

/// What the cell's figures depend on: its resolved deck, its ranks, and the machine's profile or the
/// launcher.
std::string key_of(const Study& study, const Cell& cell);

std::string directory_of(const Study& study, const Cell& cell);
/// The cell's figures, where they are of the same key; nothing where they have to be made.
std::optional<Result> read_result(const Study& study, const Cell& cell);
/// Forgets the cell's figures, because new ones are on their way.
void remove_result(const Study& study, const Cell& cell);
/// Throws Error(environment) where the file cannot be written.
void write_result(const Study& study, const Cell& cell, const Result& result);

/// Trains with the cell's deck on this machine, or in the job that this process runs in. The run's output
/// goes to log.txt in the cell's directory.
Result run(const Study& study, const Cell& cell, const std::string& program);
/// Plans the cell's deck for its machine.
Result simulate(const Study& study, const Cell& cell);

}  // namespace weft::study
