#include "base/text.hpp"

#include <gtest/gtest.h>

#include "base/median.hpp"
#include "base/quoted.hpp"

namespace weft {
namespace {

TEST(Text, Bytes) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(std::int64_t{4} << 20), "4.00 MiB");
  EXPECT_EQ(bytes_text(std::int64_t{3} << 60), "3072.00 PiB");
}

TEST(Text, Counts) {
  EXPECT_EQ(count_text(0), "0.0");
  EXPECT_EQ(count_text(12.34), "12.3");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(999.6), "1.00k");
  EXPECT_EQ(count_text(12345), "12.3k");
  EXPECT_EQ(count_text(999'600), "1.00M");
  EXPECT_EQ(count_text(4.56e9), "4.56G");
}

TEST(Text, Durations) {
  EXPECT_EQ(duration_text(0.2), "0s");
  EXPECT_EQ(duration_text(59.4), "59s");
  EXPECT_EQ(duration_text(59.6), "1m 00s");
  EXPECT_EQ(duration_text(7625), "2h 07m");
  EXPECT_EQ(duration_text(3 * 86400 + 4 * 3600), "3d 04h");
  EXPECT_EQ(duration_text(1e300 * 1e300), "?");
}

TEST(Text, TimesAreOfOneForm) {
  const std::string now = utc_now(), name = utc_now_for_names();
  ASSERT_EQ(now.size(), 20U) << now;
  ASSERT_EQ(name.size(), 16U) << name;
  EXPECT_EQ(now.substr(0, 2), "20");
  EXPECT_EQ(now[10], 'T');
  EXPECT_EQ(now.back(), 'Z');
  EXPECT_EQ(name.substr(0, 4) + "-" + name.substr(4, 2) + "-" + name.substr(6, 2), now.substr(0, 10));
}

TEST(Median, IsTheMiddle) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({1, 2, 10, 4}), 3);
}

TEST(Quoted, KnowsUtf8) {
  for (const char* const text :
       {"", "a\tb", "j\xc3\xb6rg", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_utf8(text)) << text;
  // A byte of Latin-1, an end too early, forms that are too long, half of a pair, beyond the last character.
  for (const char* const text : {"j\xf6rg", "\xe2\x82", "\xc0\xaf", "\xe0\x80\x80", "\xf0\x80\x80\x80",
                                 "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "\xe2\x28\xa1"})
    EXPECT_FALSE(is_utf8(text)) << text;
}

}  // namespace
}  // namespace weft
