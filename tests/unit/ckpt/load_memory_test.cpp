// Tests how much memory loading takes beside the memory that it fills.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "sample_state.hpp"

namespace weft::ckpt::test {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

/// A line of /proc/self/status, in bytes.
std::int64_t status_of(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  return 0;
}

std::vector<Unit> large_units() {
  return {Unit{"layers.0.ffn", {Parameter{"layers.0.ffn.w1", Shape{3, mib / 2}, 0}}, 3 * mib / 2}};
}

/// The most memory that was resident while `f` ran, less what was resident before. It runs in a forked
/// process, which has no past, and so no earlier peak.
std::int64_t peak_of(const std::function<void()>& f) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::int64_t before = status_of("VmRSS");
    f();
    const std::int64_t extra = status_of("VmHWM") - before;
    ::_exit(::write(ends[1], &extra, sizeof extra) == sizeof extra ? 0 : 1);
  }
  std::int64_t extra = -1;
  EXPECT_EQ(::read(ends[0], &extra, sizeof extra), static_cast<ssize_t>(sizeof extra));
  int status = 1;
  ::waitpid(child, &status, 0);
  ::close(ends[0]), ::close(ends[1]);
  EXPECT_EQ(status, 0);
  return extra;
}

/// The state is 18 MiB in slabs of 2 MiB. It is loaded whole, and in a part whose ends lie inside of slabs. 5
/// MiB are for pages of libraries, and for the manifest.
TEST(LoadMemory, ASlabAtMost) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer keeps what was freed";
#endif
  if (status_of("VmHWM") == 0) GTEST_SKIP() << "the system does not tell a process's peak";
  TemporaryDirectory dir;
  SaveOptions options;
  options.slab_bytes = 2 * mib;
  const RankState saved = filled_state(large_units(), 0, 1, 1);
  ASSERT_TRUE(save(dir.path(), sample_run(1), large_units(), saved.slices, single_rank(), options).ok);
  const std::string checkpoint = dir.path() + "/step-00000001";
  for (const int ranks : {1, 3}) {
    RankState state = filled_state(large_units(), ranks / 2, ranks, 2);  // this makes the memory
    ASSERT_FALSE(same_bytes(state, filled_state(large_units(), ranks / 2, ranks, 1)));
    EXPECT_LE(peak_of([&] { load(checkpoint, large_units(), state.slices); }), 7 * mib) << ranks;
    load(checkpoint, large_units(), state.slices);
    EXPECT_TRUE(same_bytes(state, filled_state(large_units(), ranks / 2, ranks, 1)));
  }
}

}  // namespace
}  // namespace weft::ckpt::test
