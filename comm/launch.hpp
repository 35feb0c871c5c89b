// What the environment says about how this process was launched.
#pragma once

#include <functional>
#include <string>

namespace weft::comm::detail {

struct Launch {
  bool ranks = false;   ///< a launcher of MPI processes started us
  int slurm_tasks = 0;  ///< tasks of the Slurm step that started this process itself; 0: none did (mpirun
                        ///< inside sbatch is fine)
};

/// `variable(name)` is getenv or, in tests, a table.
Launch read_launch(const std::function<const char*(const char*)>& variable);

/// Throws Error(bad_input) when Slurm's step has another number of tasks than MPI has ranks.
void check_slurm_tasks(const Launch& launch, int ranks);

}  // namespace weft::comm::detail
