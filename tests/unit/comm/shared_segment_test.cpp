// Tests how a segment of shared memory gets its name.
#include "comm/host/shared_segment.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

namespace weft::comm::detail {
namespace {

/// A name that somebody else has taken, for as long as this object lives.
class Taken {
 public:
  explicit Taken(std::string name)
      : name_(std::move(name)), fd_(::shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {}
  ~Taken() {
    if (fd_ < 0) return;
    ::shm_unlink(name_.c_str());
    ::close(fd_);
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;

  bool is_made() const { return fd_ >= 0; }
  off_t bytes() const {
    struct stat status {};
    EXPECT_EQ(::fstat(fd_, &status), 0);
    return status.st_size;
  }

 private:
  std::string name_;
  int fd_;
};

/// Whether the name still leads to a segment.
bool is_there(const std::string& name) {
  return SharedSegment::open(name).has_value();
}

/// A process with the same number in another container counts its segments alike.
TEST(SharedSegment, TriesAnotherNameWhereOneIsTaken) {
  const auto first = SharedSegment::create(page_bytes);
  ASSERT_TRUE(first);
  int process = 0, number = 0, attempt = 0;
  ASSERT_EQ(std::sscanf(first->name().c_str(), "/weft-%d-%d-%d", &process, &number, &attempt), 3)
      << first->name();
  ASSERT_EQ(process, ::getpid());
  const auto next_name = [&](int tried) { return fmt::format("/weft-{}-{}-{}", process, number + 1, tried); };
  const Taken one(next_name(0)), two(next_name(1));
  ASSERT_TRUE(one.is_made() && two.is_made());
  {
    const auto segment = SharedSegment::create(page_bytes);
    ASSERT_TRUE(segment) << "it did not try again";
    EXPECT_EQ(segment->name(), next_name(2));
    EXPECT_TRUE(is_there(next_name(2)));
  }
  EXPECT_FALSE(is_there(next_name(2))) << "its own name stays";
  EXPECT_TRUE(is_there(next_name(0)) && is_there(next_name(1))) << "it took another's name away";
  EXPECT_EQ(one.bytes() + two.bytes(), 0) << "it took another's memory";
}

TEST(SharedSegment, GivesItsNameAwayOnce) {
  auto segment = SharedSegment::create(page_bytes);
  ASSERT_TRUE(segment);
  const std::string name = segment->name();
  segment->forget_name();
  EXPECT_FALSE(is_there(name));
  const Taken anothers(name);
  ASSERT_TRUE(anothers.is_made());
  segment.reset();
  EXPECT_TRUE(is_there(name)) << "it took another's name away";
}

}  // namespace
}  // namespace weft::comm::detail
