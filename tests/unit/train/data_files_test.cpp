// Tests what a run says of its data: how much there is, and where it will see some of it again.
#include "train/data_files.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>

#include "support/small_deck.hpp"

namespace weft::train {
namespace {

TEST(DataAmount, IsToldInALine) {
  const Deck deck = test::small_deck({"run.steps=60"});  // 12 sequences of 24 a step
  EXPECT_EQ(amount_text({9000, 1, 360}, deck, {}),
            "data.train: 9000 tokens in 1 file, 360 sequences of 24; a step takes 12, and the run comes to 2 "
            "epochs");
  EXPECT_EQ(amount_text({9000, 2, 360}, deck, {.step = 30, .sample = 396}),
            "data.train: 9000 tokens in 2 files, 360 sequences of 24; a step takes 12, and the run comes to "
            "2.1 epochs")
      << "samples that a rollback left out are seen, too";
}

/// Compares with a walk over all samples of the run.
TEST(DataAmount, WarnsOfTheStepInWhichASecondEpochBegins) {
  int warned = 0;
  for (std::int64_t steps = 10; steps <= 14; ++steps) {
    const Deck deck = test::small_deck({"run.steps=" + std::to_string(steps)});
    for (const Position& at :
         {Position{}, Position{.step = 3, .sample = 36}, Position{.step = 3, .sample = 48}}) {
      for (std::int64_t sequences = 12; sequences <= 170; ++sequences) {
        std::int64_t second = 0;  // the step whose samples have the first one of the second epoch
        std::int64_t sample = at.sample;
        for (std::int64_t step = at.step + 1; step <= steps; ++step)
          for (int i = 0; i < 12; ++i, ++sample)
            if (sample == sequences) second = step;
        const std::string warning = fmt::format(
            "the run begins a second epoch in step {} of {}: from there on it sees the {} sequences of "
            "data.train again; give more data if that is not meant",
            second, steps, sequences);
        EXPECT_EQ(repeat_text({9000, 1, sequences}, deck, at), second == 0 ? "" : warning);
        warned += second > 0;
      }
    }
  }
  EXPECT_GT(warned, 1000);
}

TEST(DataAmount, WarnsOfAStepThatIsLargerThanTheData) {
  const Deck deck = test::small_deck();
  const std::string said =
      "a step takes 12 sequences, and data.train has 11: each step sees some of them more than once; give "
      "more data, or make data.global_batch smaller";
  EXPECT_EQ(repeat_text({300, 1, 11}, deck, {}), said);
  EXPECT_EQ(repeat_text({300, 1, 11}, deck, {.step = 5, .sample = 60}), said);
  EXPECT_EQ(repeat_text({}, deck, {}), "") << "there are no files";
}

}  // namespace
}  // namespace weft::train
