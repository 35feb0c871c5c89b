#include "train/crowded_host.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/affinity.hpp"

namespace weft::train {
namespace {

using Texts = std::vector<std::string>;

TEST(CrowdedHost, HasMoreThreadsThanProcessors) {
  const std::string crowded =
      "4 ranks of n1 have 2 threads each on 2 processors; set OMP_NUM_THREADS=1, or start by jobs/launch.sh";
  EXPECT_EQ(crowded_host(Texts(4, "n1"), Texts(4, "11"), 2), crowded);
  EXPECT_EQ(crowded_host(Texts(4, "n1"), Texts(4, "0011"), 2), crowded) << "by numbers that begin elsewhere";
  EXPECT_EQ(crowded_host(Texts(4, "n1"), Texts(4, "11"), 1), "") << "one thread a rank harms nobody";
  EXPECT_EQ(crowded_host(Texts(1, "n1"), Texts(1, "11"), 2), "");
  EXPECT_EQ(crowded_host(Texts(1, "n1"), Texts(1, "1111"), 5),
            "1 ranks of n1 have 5 threads each on 4 processors; set OMP_NUM_THREADS=4, or start by "
            "jobs/launch.sh");
  EXPECT_EQ(crowded_host(Texts(2, "n1"), Texts(2, ""), 8), "") << "the system does not say";
}

/// Ranks that are bound have other processors each, and hosts do not share theirs.
TEST(CrowdedHost, CountsTheProcessorsOfAllItsRanks) {
  EXPECT_EQ(crowded_host({"n1", "n1", "n2", "n2"}, {"11", "0011", "11", "0011"}, 2), "");
  EXPECT_EQ(crowded_host({"n1", "n1", "n2", "n2"}, {"11", "0011", "11", "11"}, 2),
            "2 ranks of n2 have 2 threads each on 2 processors; set OMP_NUM_THREADS=1, or start by "
            "jobs/launch.sh");
}

TEST(CrowdedHost, AProcessKnowsItsProcessors) {
  const std::string cpus = cpus_at_start();
  EXPECT_TRUE(cpus.ends_with('1')) << cpus;
  EXPECT_EQ(cpus.find_first_not_of("01"), std::string::npos) << cpus;
}

}  // namespace
}  // namespace weft::train
