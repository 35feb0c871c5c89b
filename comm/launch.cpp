#include "comm/launch.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/check.hpp"
#include "comm/world.hpp"

namespace weft::comm {
namespace detail {
namespace {

// One of these is set by mpirun of Open MPI 4, by that of Open MPI 5 (PRRTE), and by Hydra (MPICH, Intel
// MPI). srun sets none of them.
constexpr std::array mpirun_variables = {"OMPI_COMM_WORLD_SIZE", "PRTE_LAUNCHED", "HYDI_CONTROL_FD",
                                         "MPI_LOCALNRANKS"};
constexpr std::array pmi_variables = {"PMIX_RANK", "PMI_RANK"};

int number(const char* text) {
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

Launch read_launch(const std::function<const char*(const char*)>& variable) {
  const auto is_set = [&](const char* name) { return variable(name) != nullptr; };
  const bool by_mpirun = std::any_of(mpirun_variables.begin(), mpirun_variables.end(), is_set);
  const bool by_pmi = std::any_of(pmi_variables.begin(), pmi_variables.end(), is_set);
  Launch launch;
  // The batch script itself has SLURM_NTASKS, but no step. mpirun starts its daemons with srun, whose step is
  // not ours.
  if (!by_mpirun && is_set("SLURM_STEP_ID")) {
    launch.slurm_tasks =
        number(variable(is_set("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS"));
    launch.slurm_task = number(variable("SLURM_PROCID"));
  }
  launch.ranks = by_mpirun || by_pmi || launch.slurm_tasks > 1;
  return launch;
}

void check_slurm_tasks(const Launch& launch, int ranks) {
  if (launch.slurm_tasks == 0 || launch.slurm_tasks == ranks) return;
  if (launch.slurm_task != 0) throw Error(ExitCode::bad_input, "");
  WEFT_VALIDATE(
      false,
      "Slurm started {} tasks but MPI sees {} rank(s) (srun and the MPI library do not speak the same PMI); "
      "use srun --mpi=pmix, or mpirun inside the job",
      launch.slurm_tasks, ranks);
}

}  // namespace detail

std::unique_ptr<World> make_world(int* argc, char*** argv) {
  const detail::Launch launch = detail::read_launch([](const char* name) { return std::getenv(name); });
  return launch.ranks ? make_mpi_world(argc, argv) : make_self_world();
}

}  // namespace weft::comm
