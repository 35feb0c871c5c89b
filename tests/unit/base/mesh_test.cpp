// Tests the mesh: places, groups, and the ranks that share a batch.
#include "base/mesh.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace weft::test {
namespace {

std::vector<Mesh> meshes() {
  return {Mesh({{"data", 1}}),
          Mesh({{"data", 6}}),
          Mesh({{"replica", 2}, {"data", 3}}),
          Mesh({{"data", 3}, {"replica", 2}}),
          Mesh({{"replica", 2}, {"data", 3}, {"pipe", 2}, {"tensor", 4}}),
          Mesh({{"tensor", 3}, {"data", 2}, {"pipe", 2}})};
}

TEST(Mesh, GroupsOfAnAxisPartTheWorld) {
  for (const Mesh& mesh : meshes())
    for (std::size_t axis = 0; axis < mesh.axes().size(); ++axis) {
      SCOPED_TRACE(mesh.axes()[axis].name);
      const int i = static_cast<int>(axis);
      std::map<int, std::vector<int>> group_of;
      for (int rank = 0; rank < mesh.world(); ++rank) {
        const std::vector<int> group = mesh.group(rank, i);
        ASSERT_EQ(group.size(), static_cast<std::size_t>(mesh.size(i)));
        EXPECT_EQ(group[static_cast<std::size_t>(mesh.coordinate(rank, i))], rank);
        for (const int member : group) EXPECT_EQ(group_of.emplace(member, group).first->second, group);
      }
    }
}

/// The microbatches of a round are dealt out by batch rank: each rank of a batch gets another, and ranks that
/// share one differ on no axis that cuts batches.
TEST(Mesh, BatchRanksCountTheAxesThatCutBatches) {
  for (const Mesh& mesh : meshes()) {
    EXPECT_EQ(mesh.batch_ranks(), mesh.size("data") * mesh.size("replica"));
    std::map<int, std::set<std::pair<int, int>>> places;
    for (int rank = 0; rank < mesh.world(); ++rank) {
      const auto on = [&](const char* name) {
        return mesh.size(name) == 1 ? 0 : mesh.coordinate(rank, mesh.axis(name));
      };
      places[mesh.batch_rank(rank)].emplace(on("data"), on("replica"));
    }
    ASSERT_EQ(places.size(), static_cast<std::size_t>(mesh.batch_ranks()));
    EXPECT_EQ(places.rbegin()->first, mesh.batch_ranks() - 1);
    for (const auto& [batch_rank, seen] : places) EXPECT_EQ(seen.size(), 1U) << batch_rank;
  }
}

/// The bits of a sum over a batch depend on who has which microbatch, and so on no order of axes.
TEST(Mesh, BatchRanksOfAReplicaLieSideBySide) {
  for (const Mesh& mesh : meshes())
    for (int rank = 0; rank < mesh.world(); ++rank) {
      const auto on = [&](const char* name) {
        return mesh.size(name) == 1 ? 0 : mesh.coordinate(rank, mesh.axis(name));
      };
      EXPECT_EQ(mesh.batch_rank(rank), on("replica") * mesh.size("data") + on("data"));
    }
}

TEST(Mesh, NeighboursOfTheLastAxisAreNeighboursInTheWorld) {
  const Mesh mesh({{"data", 2}, {"tensor", 4}});
  EXPECT_EQ(mesh.group(5, mesh.axis("tensor")), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(mesh.group(5, mesh.axis("data")), (std::vector<int>{1, 5}));
  EXPECT_EQ(mesh.stride(mesh.axis("data")), 4);
}

}  // namespace
}  // namespace weft::test
