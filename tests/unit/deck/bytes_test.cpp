#include "deck/bytes.hpp"

#include <gtest/gtest.h>

namespace weft::deck {
namespace {

TEST(Bytes, ReadsUnitsOfTwoAndOfTen) {
  EXPECT_EQ(parse_bytes("4GiB"), 4.0 * (1 << 30));
  EXPECT_EQ(parse_bytes("512 MiB"), 512.0 * (1 << 20));
  EXPECT_EQ(parse_bytes("1.5GB"), 1.5e9);
  EXPECT_EQ(parse_bytes("1000"), 1000.0);
  EXPECT_EQ(parse_bytes("7B"), 7.0);
}

TEST(Bytes, RefusesWhatIsNone) {
  for (const char* text : {"", "GiB", "-1GiB", "4 gigs", "4GiB8", "nan", "1e9"})
    EXPECT_FALSE(parse_bytes(text)) << text;
}

TEST(Bytes, PrintsWhatItReads) {
  for (const double bytes : {0.0, 1.0, 1000.0, 1024.0, 1536.0, 3.0 * (1 << 30), 0x1p41})
    EXPECT_EQ(parse_bytes(print_bytes(bytes)), bytes);
  EXPECT_EQ(print_bytes(4.0 * (1 << 30)), "4GiB");
  EXPECT_EQ(print_bytes(1536), "1536B");
  EXPECT_EQ(print_bytes(0.5), "");
}

}  // namespace
}  // namespace weft::deck
