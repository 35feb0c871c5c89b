#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/check.hpp"
#include "comm/launch.hpp"

namespace weft::comm::detail {
namespace {

Launch launch(const std::map<std::string, const char*>& variables) {
  return read_launch([&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second;
  });
}

TEST(Launch, WhoStartedUs) {
  EXPECT_FALSE(launch({}).ranks);
  EXPECT_TRUE(launch({{"OMPI_COMM_WORLD_SIZE", "2"}}).ranks);
  EXPECT_TRUE(launch({{"PMIX_RANK", "0"}}).ranks);
  // The batch script itself has the job's tasks, but no step.
  EXPECT_FALSE(launch({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).ranks);
  const Launch srun = launch({{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  EXPECT_TRUE(srun.ranks);
  EXPECT_EQ(srun.slurm_tasks, 4);
  // mpirun on a second host is started by a step of mpirun's own daemons.
  const Launch mpirun =
      launch({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"OMPI_COMM_WORLD_SIZE", "8"}});
  EXPECT_TRUE(mpirun.ranks);
  EXPECT_EQ(mpirun.slurm_tasks, 0);
}

TEST(Launch, SilentSingletonsAreBadInput) {
  const Launch srun = launch({{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "4"}});
  EXPECT_NO_THROW(check_slurm_tasks(srun, 4));
  try {
    check_slurm_tasks(srun, 1);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::bad_input);
    EXPECT_NE(std::string(e.what()).find("4 tasks"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::comm::detail
