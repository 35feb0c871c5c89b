// Tests what happens when something goes wrong on some ranks before a run begins: all of them leave, with one
// line and one exit code.
#include "comm/agree.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "base/check.hpp"
#include "base/log.hpp"
#include "support/mpi_environment.hpp"

namespace weft {
namespace {

/// The code that every rank throws when `stage` throws on one rank or on all; rank 0's text goes to `text`.
ExitCode code_of(const std::function<void()>& stage, int only_rank, std::string& text) {
  comm::World& world = test::world();
  try {
    comm::agree(world, [&] {
      if (only_rank < 0 || world.rank() == only_rank) stage();
    });
  } catch (const Error& e) {
    text = e.what();
    EXPECT_EQ(text.empty(), world.rank() != 0) << "rank 0 speaks, and no other";
    return e.code();
  }
  return ExitCode::ok;
}

struct Thrown {
  std::function<void()> stage;
  ExitCode code;
  const char* text;
};

TEST(Agree, AnyExceptionOfAnyRankIsOneLineOfRankZero) {
  const Thrown all[] = {
      {[] { throw Error(ExitCode::bad_input, "a key is wrong"); }, ExitCode::bad_input, "a key is wrong"},
      {[] { throw std::logic_error("attention: no kernel"); }, ExitCode::internal,
       "internal error: attention: no kernel (this is a bug in Weft)"},
      {[] { throw std::bad_alloc(); }, ExitCode::environment, "out of memory"},
      {[] { throw std::system_error(std::make_error_code(std::errc::io_error)); }, ExitCode::environment,
       "the system refuses"}};
  const int last = test::world().size() - 1;
  for (const Thrown& thrown : all)
    for (const int only_rank : {-1, last}) {
      std::string text;
      EXPECT_EQ(code_of(thrown.stage, only_rank, text), thrown.code);
      if (test::world().rank() != 0) continue;
      EXPECT_NE(text.find(thrown.text), std::string::npos) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      EXPECT_EQ(text.starts_with("rank "), only_rank > 0) << text;
    }
}

/// All ranks have the first of the warnings, all but rank 0 the second, and the last rank the third. They
/// keep them in unlike orders, and one of them twice.
TEST(Agree, AWarningIsSaidOnceByTheFirstRankThatHasIt) {
  comm::World& world = test::world();
  const int last = world.size() - 1;
  testing::internal::CaptureStderr();
  if (world.rank() == last) log::warn_for_all("of rank {}", last);
  for (int i = 0; i < 2 && world.rank() > 0; ++i) log::warn_for_all("of the ranks behind 0");
  log::warn_for_all("of all ranks");
  if (last > 0) {
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "kept until all have come";
    testing::internal::CaptureStderr();
  }
  for (int i = 0; i < 2; ++i) comm::tell_kept_warnings(world);
  const auto line = [&](const std::string& text) {
    return fmt::format("weft: warning: rank {}: {}\n", world.rank(), text);
  };
  std::string expected;
  if (world.rank() == last) expected += line(fmt::format("of rank {}", last));
  if (world.rank() == 1) expected += line("of the ranks behind 0");
  if (world.rank() == 0) expected += line("of all ranks");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), expected);
}

}  // namespace
}  // namespace weft
