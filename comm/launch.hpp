// What the environment says about how this process was launched.
#pragma once

#include <functional>
#include <string>

namespace weft::comm::detail {

struct Launch {
  bool ranks = false;   ///< a launcher of MPI processes started us
  int slurm_tasks = 0;  ///< tasks of the Slurm step that started this process itself; 0: none did (mpirun
                        ///< inside sbatch is fine)
  int slurm_task = 0;   ///< this process's number among them
};

/// `variable(name)` is getenv or, in tests, a table.
Launch read_launch(const std::function<const char*(const char*)>& variable);

/// Throws Error(bad_input) when Slurm's step has another number of tasks than MPI has ranks: task 0 with the
/// message, the others with an empty one (they cannot agree over MPI: each may believe to be alone).
void check_slurm_tasks(const Launch& launch, int ranks);

}  // namespace weft::comm::detail
