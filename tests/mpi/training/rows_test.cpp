// Tests what ranks tell each other about the rows that their tokens name.
#include "runtime/token_rows.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "base/device.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/shared_deck.hpp"
#include "train/trainer.hpp"

namespace weft {
namespace {

bool names(int rank, int round, std::int64_t row) {
  return (row * 31 + rank * 7 + round * 3) % 5 == 0;
}

/// A plan that sends rows, made without shared memory: one host's ranks would share the table otherwise.
plan::Plan plan_of_rows(const std::string& vocab) {
  return train::Trainer(
             test::shared_deck(test::world(), {"schedule.disable=[\"share\"]", "model.vocab=" + vocab}),
             test::world())
      .plan();
}

std::unique_ptr<runtime::TokenRows> rows_of(const plan::Plan& plan) {
  return runtime::TokenRows::make(plan, 0, [] {
    std::vector<int> all(static_cast<std::size_t>(test::world().size()));
    std::iota(all.begin(), all.end(), 0);
    return test::world().open(all, Lane::gather, "rows");
  });
}

TEST(TokenRows, ARankKnowsItsOwnAndTheOthersInItsSlice) {
  if (!device_is_host()) GTEST_SKIP() << "rows are for messages of hosts";
  for (const char* vocab : {"300", "1001"}) {
    const plan::Plan plan = plan_of_rows(vocab);
    const auto rows = rows_of(plan);
    ASSERT_EQ(rows == nullptr, test::world().size() == 1);
    if (!rows) continue;
    const int rounds = static_cast<int>(rows->by_round().size()), me = test::world().rank();
    const comm::RowSlices s = rows->by_round()[0].slices;
    ASSERT_EQ(s.rows, std::stoll(vocab));
    std::int64_t looked = 0;
    for (int again = 0; again < 2; ++again) {  // the second exchange has forgotten the first
      for (int round = 0; round < rounds; ++round)
        for (std::int32_t row = 0; row < s.rows; ++row)
          if (names(me, round + again, row)) rows->add(round, {&row, 1});
      rows->exchange();
      for (int round = 0; round < rounds; ++round) {
        const comm::UsedRows& used = rows->by_round()[static_cast<std::size_t>(round)];
        for (std::int64_t row = 0; row < s.rows; ++row) {
          ASSERT_EQ(used.uses(me, row), names(me, round + again, row)) << row;
          const bool touches = row * s.row_elements < (me + 1) * s.slice_elements &&
                               (row + 1) * s.row_elements > me * s.slice_elements;
          for (int r = 0; touches && r < s.ranks; ++r, ++looked)
            ASSERT_EQ(used.uses(r, row), names(r, round + again, row)) << row << " of rank " << r;
        }
      }
    }
    EXPECT_GT(looked, 0);
  }
}

TEST(TokenRows, TakeWhatIsPlanned) {
  const plan::Plan plan = plan_of_rows("1001");
  const auto rows = rows_of(plan);
  EXPECT_EQ(runtime::TokenRows::planned_bytes(plan), rows ? rows->bytes() : 0);
}

}  // namespace
}  // namespace weft
