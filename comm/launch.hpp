// Reads from the environment how this process was launched.
#pragma once

#include <functional>
#include <string>

namespace weft::comm::detail {

struct Launch {
  bool ranks = false;  ///< a launcher of MPI processes started us
  /// Tasks of the Slurm step that started this process itself; 0: none did (mpirun inside of sbatch is fine).
  int slurm_tasks = 0;
  int slurm_task = 0;  ///< this process's number among these tasks
};

/// Reads the variables. `variable(name)` is getenv or, in tests, a table.
Launch read_launch(const std::function<const char*(const char*)>& variable);

/// Throws Error(bad_input) when Slurm's step has another number of tasks than MPI has ranks: on task 0 with
/// the message, and on the others with an empty one. They cannot agree over MPI, because each may believe
/// that it is alone.
void check_slurm_tasks(const Launch& launch, int ranks);

}  // namespace weft::comm::detail
