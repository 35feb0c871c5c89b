#include "runtime/memory_usage.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "support/temporary_directory.hpp"

namespace weft::runtime {
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

class AvailableMemory : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::optional<std::int64_t> available() const { return available_memory(root_); }

 private:
  test::TemporaryDirectory dir_;
  std::filesystem::path root_ = dir_ / "root";
};

TEST(AvailableMemoryHere, IsSomeOfThisMachines) {
  const std::int64_t bytes = available_memory().value_or(0);
  EXPECT_GT(bytes, 64 * mib);
  EXPECT_LT(bytes, ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE));
}

TEST_F(AvailableMemory, IsUnknownWithoutProc) {
  EXPECT_EQ(available(), std::nullopt);
}

TEST_F(AvailableMemory, IsTheHostsWithoutGroups) {
  write("proc/meminfo", "MemTotal:       2048 kB\nMemFree:        100 kB\nMemAvailable:   1024 kB\n");
  EXPECT_EQ(available(), mib);
}

TEST_F(AvailableMemory, IsTheTightestGroups) {
  write("proc/meminfo", "MemAvailable:   8192 kB\n");
  write("proc/self/cgroup", "0::/slurm/job/step\n");
  write("sys/fs/cgroup/slurm/job/step/memory.max", "max\n");
  write("sys/fs/cgroup/slurm/job/step/memory.current", "1000\n");
  write("sys/fs/cgroup/slurm/job/memory.max", "5000000\n");
  write("sys/fs/cgroup/slurm/job/memory.current", "2000000\n");
  write("sys/fs/cgroup/slurm/job/memory.stat",
        "anon 5\ninactive_file 300000\nactive_file 7000\nslab_reclaimable 11\n");
  EXPECT_EQ(available(), 5000000 - 2000000 + 300000 + 7000 + 11);
}

TEST_F(AvailableMemory, KnowsTheFirstVersionOfGroups) {
  write("proc/meminfo", "MemAvailable:   8192 kB\n");
  write("proc/self/cgroup", "4:cpu,memory:/job:1\n3:cpuset:/\n0::/\n");
  write("sys/fs/cgroup/memory/job:1/memory.limit_in_bytes", "3000000\n");
  write("sys/fs/cgroup/memory/job:1/memory.usage_in_bytes", "1000000\n");
  write("sys/fs/cgroup/memory/job:1/memory.stat", "inactive_file 9\ntotal_inactive_file 400\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
  EXPECT_EQ(available(), 2000400);
}

TEST_F(AvailableMemory, IsNoneInAFullGroup) {
  write("proc/meminfo", "MemAvailable:   8192 kB\n");
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "1000\n");
  write("sys/fs/cgroup/memory.current", "1200\n");
  EXPECT_EQ(available(), 0);
}

}  // namespace
}  // namespace weft::runtime
