#include "comm/host/pace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/portions.hpp"

namespace weft::test {
namespace {

using comm::detail::default_chunk_bytes;
using comm::detail::messages_in_flight;
using comm::detail::Pace;

/// Simulates a link that moves one message after another, and a thread that looks at it as often as the pace
/// says.
class Link {
 public:
  explicit Link(double bytes_per_ns) : message_ns_(default_chunk_bytes / bytes_per_ns) {}

  double message_ns() const { return message_ns_; }
  void idle(double ns) { now_ns_ += ns; }
  /// The thread gets its core this much after a sleep's end.
  void wake_late(double ns) { wake_late_ns_ = ns; }

  struct Seen {
    int looks = 0;
    double idle_ns = 0;  ///< how long the link was idle while messages were not issued
    double late_ns = 0;  ///< time from the last message's end to the look that sees it
  };
  /// Runs an exchange of `messages`; the peer begins `peer_late_ns` after this rank.
  Seen exchange(std::size_t messages, double peer_late_ns = 0) {
    Seen seen;
    std::vector<double> ends;
    std::size_t done = 0;
    double end = now_ns_ + peer_late_ns;
    for (;;) {
      for (; done < ends.size() && ends[done] <= now_ns_; ++done) done_bytes_ += default_chunk_bytes;
      if (done == messages) break;
      if (!ends.empty() && ends.size() < messages) seen.idle_ns += std::max(0.0, now_ns_ - end);
      while (ends.size() < std::min<std::size_t>(messages, done + messages_in_flight)) {
        end = std::max(now_ns_, end) + message_ns_;
        ends.push_back(end);
      }
      const auto in_flight = static_cast<std::int64_t>(ends.size() - done) * default_chunk_bytes;
      now_ns_ +=
          static_cast<double>(pace_.pause_ns(in_flight, done_bytes_, static_cast<std::int64_t>(now_ns_)));
      now_ns_ += wake_late_ns_;
      ++seen.looks;
    }
    seen.late_ns = now_ns_ - end;
    return seen;
  }

 private:
  Pace pace_;
  double message_ns_;
  double now_ns_ = 1e9, wake_late_ns_ = 0;
  std::int64_t done_bytes_ = 0;
};

class PaceAt : public testing::TestWithParam<double> {};

TEST_P(PaceAt, LinkStaysBusyAndFewLooksSuffice) {
  Link link(GetParam());
  for (int i = 0; i < 5; ++i) link.exchange(130);  // learns the rate
  const Link::Seen seen = link.exchange(130);
  EXPECT_EQ(seen.idle_ns, 0);
  EXPECT_LE(seen.late_ns, 2 * Pace::shortest_ns + link.message_ns() / 2);
  // A look finds eight messages, except at the end; or what comes during the longest sleep.
  const double messages_a_look = std::min(8.0, GetParam() * Pace::longest_ns / default_chunk_bytes);
  EXPECT_LE(seen.looks, 130 / messages_a_look + 30);
}

TEST_P(PaceAt, LatePeerIsNoSlowLink) {
  Link link(GetParam());
  for (int i = 0; i < 5; ++i) link.exchange(130);
  for (const std::size_t messages : {1, 16, 130}) {
    link.exchange(messages, 100e6);
    const Link::Seen seen = link.exchange(messages);
    EXPECT_EQ(seen.idle_ns, 0);
    EXPECT_LE(seen.late_ns, 3 * Pace::shortest_ns + link.message_ns() / 2) << messages;
  }
}

TEST_P(PaceAt, IdleTimeIsNoSlowLink) {
  for (const double wake_late : {0.0, 1e6}) {
    Link link(GetParam());
    link.wake_late(wake_late);
    for (const std::size_t messages : {16, 32, 64}) {
      for (int i = 0; i < 200; ++i) {
        link.exchange(messages);
        link.idle(20e6);
      }
      EXPECT_LE(link.exchange(messages).late_ns, 3 * Pace::shortest_ns + link.message_ns() / 2 + wake_late)
          << messages;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(BytesPerNanosecond, PaceAt, testing::Values(0.02, 0.05, 0.12, 0.5, 1.2, 4.0));

TEST(Pace, NothingUnderWayIsLookedAtSoon) {
  Pace pace;
  std::int64_t now = 0, pause = 0;
  for (int i = 0; i < 100; ++i) now += pause = pace.pause_ns(8, 0, now);
  EXPECT_EQ(pause, Pace::longest_idle_ns);
  EXPECT_EQ(pace.pause_ns(0, 8, now), Pace::shortest_ns);
}

}  // namespace
}  // namespace weft::test
