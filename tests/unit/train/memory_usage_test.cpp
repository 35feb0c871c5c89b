#include "train/memory_usage.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>

namespace weft::train {
namespace {

constexpr std::int64_t mib = 1 << 20;

TEST(MemoryUsage, FollowsPagesThatAreTouchedAndGivenBack) {
  constexpr std::size_t bytes = 128 * mib;
  const auto before = memory_usage();
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::memset(pages, 1, bytes);
  const auto held = memory_usage();
  ::munmap(pages, bytes);
  const auto after = memory_usage();
  EXPECT_NEAR(static_cast<double>(held.rss_bytes - before.rss_bytes), 128.0 * mib, 2.0 * mib);
  EXPECT_NEAR(static_cast<double>(held.rss_bytes - after.rss_bytes), 128.0 * mib, 2.0 * mib);
  EXPECT_GE(after.peak_rss_bytes, held.rss_bytes - 4 * mib);
}

TEST(MemoryUsage, PeakAgreesWithGetrusage) {
  rusage r{};
  ::getrusage(RUSAGE_SELF, &r);
  EXPECT_NEAR(static_cast<double>(memory_usage().peak_rss_bytes), static_cast<double>(r.ru_maxrss) * 1024,
              4.0 * mib);
}

}  // namespace
}  // namespace weft::train
