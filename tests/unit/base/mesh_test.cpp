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
          Mesh({{"tensor", 3}, {"data", 2}, {"pipe", 2}}),
          Mesh({{"data", 1}, {"context", 4}}),
          Mesh({{"replica", 2}, {"data", 3}, {"pipe", 2}, {"context", 2}, {"tensor", 2}}),
          Mesh({{"context", 3}, {"tensor", 2}, {"data", 2}, {"replica", 2}})};
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
    EXPECT_EQ(mesh.batch_ranks() * mesh.size("context"), mesh.size("data") * mesh.size("replica"));
    std::map<int, std::set<std::pair<int, int>>> places;
    for (int rank = 0; rank < mesh.world(); ++rank) {
      const auto on = [&](const char* name) {
        return mesh.size(name) == 1 ? 0 : mesh.coordinate(rank, mesh.axis(name));
      };
      places[mesh.batch_rank(rank)].emplace(on("data") / mesh.size("context"), on("replica"));
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
      EXPECT_EQ(mesh.batch_rank(rank),
                (on("replica") * mesh.size("data") + on("data")) / mesh.size("context"));
    }
}

/// State is cut over data and context together. Those who share a batch have their terms of a sum side by
/// side, so that its bits do not depend on how many ranks there are on data.
TEST(Mesh, RanksOfASequenceLieSideBySideInTheirGroupOfData) {
  for (const Mesh& mesh : meshes())
    for (int rank = 0; rank < mesh.world(); ++rank) {
      const int place = mesh.coordinate(rank, mesh.axis("data"));
      EXPECT_EQ(place % mesh.size("context"), mesh.context_rank(rank));
      const std::vector<int> data = mesh.group(rank, mesh.axis("data"));
      const auto first = data.begin() + place - mesh.context_rank(rank);
      if (mesh.size("context") == 1) continue;
      EXPECT_EQ(mesh.group(rank, mesh.axis("context")),
                std::vector<int>(first, first + mesh.size("context")));
      for (const int other : mesh.group(rank, mesh.axis("context")))
        EXPECT_EQ(mesh.batch_rank(other), mesh.batch_rank(rank));
    }
}

TEST(Mesh, NeighboursOfTheLastAxisAreNeighboursInTheWorld) {
  const Mesh mesh({{"data", 2}, {"tensor", 4}});
  EXPECT_EQ(mesh.group(5, mesh.axis("tensor")), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(mesh.group(5, mesh.axis("data")), (std::vector<int>{1, 5}));
  EXPECT_EQ(mesh.stride(mesh.axis("data")), 4);
  EXPECT_EQ(mesh.span(mesh.axis("data")), 5);
  const Mesh apart({{"data", 2}, {"tensor", 4}, {"context", 2}});
  EXPECT_EQ(apart.group(9, apart.axis("data")), (std::vector<int>{0, 1, 8, 9}));
  EXPECT_EQ(apart.span(apart.axis("data")), 10);
}

}  // namespace
}  // namespace weft::test
