#include "deck/duration.hpp"

#include <gtest/gtest.h>

namespace weft::deck {
namespace {

TEST(Duration, Reads) {
  EXPECT_EQ(parse_duration("2h30m"), 9000.0);
  EXPECT_EQ(parse_duration("90s"), 90.0);
  EXPECT_EQ(parse_duration("1d12h"), 129600.0);
  EXPECT_EQ(parse_duration("1.5h"), 5400.0);
  EXPECT_EQ(parse_duration("0s"), 0.0);
  EXPECT_EQ(parse_duration("02:30:00"), 9000.0);
  EXPECT_EQ(parse_duration("100:00:01"), 360001.0);
  EXPECT_EQ(parse_duration("1-12:00:00"), 129600.0);
}

TEST(Duration, Refuses) {
  for (const char* text :
       {"",          "2",         "h",         "2h30", "30m2h", "2h2h",  "2 h",      "-2h",
        "+2h",       "1e3s",      "inf",       "nans", "2x",    "02:30", "02:60:00", "02:00:60",
        "02:30:00s", "1.5:00:00", "-02:30:00", "1-",   "1-2h",  "::",    "2h\n"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(Duration, PrintsWhatItReads) {
  EXPECT_EQ(print_duration(9000), "2h30m");
  EXPECT_EQ(print_duration(0), "0s");
  EXPECT_EQ(print_duration(90061), "1d1h1m1s");
  EXPECT_EQ(print_duration(0.5), "");
  for (double seconds = 0; seconds < 1e9; seconds = seconds * 3 + 7)
    EXPECT_EQ(parse_duration(print_duration(seconds)), seconds);
}

}  // namespace
}  // namespace weft::deck
