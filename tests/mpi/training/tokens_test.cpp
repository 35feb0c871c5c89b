// Ranks that hold different numbers of valid targets.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "support/curve.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/reference.hpp"
#include "support/shared_deck.hpp"
#include "unit/model/uneven_batches.hpp"

namespace weft {
namespace {

using test::Curve;

Curve train_uneven(const std::string& mode, comm::World& world) {
  const Deck deck = test::shared_deck(world, {"parallel.mode=" + mode, test::unit_buckets});
  const test::UnevenBatches batches({deck.data.batch, deck.data.global_batch, deck.data.seq},
                                    deck.model.vocab);
  train::Trainer trainer(deck, world, std::make_unique<test::UnevenBatches>(batches));
  const Curve curve = test::train_steps(trainer, 4);
  for (std::size_t step = 0; step < curve.tokens.size(); ++step)
    EXPECT_EQ(curve.tokens[step], batches.valid_in_step(static_cast<std::int64_t>(step)));
  return curve;
}

TEST(UnevenTokens, WeighTheSameOnAnyNumberOfRanks) {
  const Curve alone = test::from_rank_zero([] {
    const auto self = comm::make_self_world();
    return train_uneven("fsdp", *self);
  });
  EXPECT_NE(alone.tokens.front(), alone.tokens.back()) << "steps are to differ";
  for (const char* mode : {"ddp", "zero1", "zero2", "fsdp"})
    EXPECT_EQ(train_uneven(mode, test::world()), alone) << mode;
}

}  // namespace
}  // namespace weft
