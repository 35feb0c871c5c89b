// Tests functions whose bits do not depend on the host: against the C library's in long double, and under
// every choice of instructions that the C library has.
#include "base/portable_math.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/rng.hpp"
#include "kernels/rope.hpp"
#include "support/worst.hpp"

namespace weft {
namespace {

constexpr int samples = 200000;
const RandomStream draws(5, "portable_math");

/// The error, in units of the last place of the exact value.
double ulps(double value, long double exact) {
  const double rounded = static_cast<double>(exact);
  const double unit = std::nextafter(std::abs(rounded), INFINITY) - std::abs(rounded);
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact)) / unit;
}

TEST(PortableMath, LogIsWithinTwoUnits) {
  double worst = 0;
  for (int i = 0; i < samples; ++i) {
    const double u = draws.uniform(static_cast<std::uint64_t>(i)) + 0x1p-53;
    for (const double x : {u, 1 + u, u * 1e300, u * u * u, 1 - u * 0x1p-20})
      worst = test::worse(worst, ulps(portable::log(x), std::log(static_cast<long double>(x))));
  }
  EXPECT_LT(worst, 2);
  EXPECT_EQ(portable::log(1), 0);
  EXPECT_EQ(portable::log(0), -INFINITY);
  EXPECT_EQ(portable::log(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(portable::log(NAN)));
  EXPECT_TRUE(std::isnan(portable::log(-1)));
}

TEST(PortableMath, ExpIsWithinTwoUnits) {
  double worst = 0;
  for (int i = 0; i < samples; ++i) {
    const double x = 1400 * (draws.uniform(static_cast<std::uint64_t>(i)) - 0.5);
    worst = test::worse(worst, ulps(portable::exp(x), std::exp(static_cast<long double>(x))));
    worst = test::worse(worst, ulps(portable::exp(x / 1000), std::exp(static_cast<long double>(x / 1000))));
  }
  EXPECT_LT(worst, 2);
  EXPECT_EQ(portable::exp(0), 1);
  EXPECT_EQ(portable::exp(-1000), 0);
  EXPECT_EQ(portable::exp(1000), INFINITY);
}

TEST(PortableMath, AnglesAreWithinTwoPartsInTenToTheSixteenth) {
  constexpr long double pi = std::numbers::pi_v<long double>;
  long double worst = 0;
  for (int i = 0; i < samples; ++i) {
    const double u = draws.uniform(static_cast<std::uint64_t>(i));
    for (const double turns : {u, u / 1024, u * 2}) {
      const auto [c, s] = portable::of_turns(turns);
      worst = test::worse(worst, std::abs(c - std::cos(2 * pi * turns)));
      worst = test::worse(worst, std::abs(s - std::sin(2 * pi * turns)));
    }
    for (const double angle : {u, 100 * u, 0x1p24 * u}) {
      const auto [c, s] = portable::of_radians(angle);
      worst = test::worse(worst, std::abs(c - std::cos(static_cast<long double>(angle))));
      worst = test::worse(worst, std::abs(s - std::sin(static_cast<long double>(angle))));
    }
  }
  EXPECT_LT(worst, 2.3e-16L);
  EXPECT_EQ(portable::of_turns(0).cos, 1);
  EXPECT_EQ(portable::of_turns(0.25).sin, 1);
  EXPECT_EQ(portable::of_turns(0.5).cos, -1);
  EXPECT_EQ(portable::of_turns(0.75).sin, -1);
}

/// A hash of what becomes part of a run's bits: normal draws, powers of the optimizer, a table of angles.
std::uint64_t hash_of_bits() {
  std::vector<double> values;
  for (std::uint64_t i = 0; i < 100000; ++i) values.push_back(draws.normal(i));
  for (int t = 1; t < 2000; ++t) values.push_back(portable::pow(0.95, t));
  std::vector<float> table(512 * 64);
  kernels::fill_rope_table(table.data(), 512, 64, 500000, {.enabled = true});
  return hash_bytes(values.data(), values.size() * sizeof(double),
                    hash_bytes(table.data(), table.size() * sizeof(float), 0));
}

/// The processes that the next test starts run this test.
TEST(PortableMath, DISABLED_TellsItsBits) {
  std::printf("bits %016llx\n", static_cast<unsigned long long>(hash_of_bits()));
}

/// What another process of this program prints behind "bits ". glibc's tunables make its host one without
/// some instructions.
std::string bits_with(const std::string& tunables) {
  char program[4096] = {};
  if (::readlink("/proc/self/exe", program, sizeof program - 1) <= 0) return "no program";
  const std::string command = "GLIBC_TUNABLES='" + tunables + "' '" + program +
                              "' --gtest_also_run_disabled_tests --gtest_filter='*TellsItsBits'";
  std::string text;
  FILE* const pipe = ::popen(command.c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  if (::pclose(pipe) != 0) return "failed: " + text;
  const auto at = text.find("bits ");
  return at == text.npos ? "nothing: " + text : text.substr(at, 21);
}

TEST(PortableMath, BitsAreThoseOfHostsWithoutFusedMultiplyAndAdd) {
  const std::string here = bits_with("");
  ASSERT_TRUE(here.starts_with("bits ")) << here;
  for (const char* without : {"-FMA,-FMA4", "-AVX2,-FMA,-FMA4,-AVX512F", "-AVX,-AVX2,-FMA,-FMA4,-AVX512F"}) {
    const std::string names(without);
    EXPECT_EQ(bits_with("glibc.cpu.hwcaps=" + names), here);
    std::string usable = "glibc.cpu.hwcaps=";  // these are the names up to glibc 2.32
    for (const char c : names + ",") usable += c == ',' ? "_Usable," : std::string(1, c);
    EXPECT_EQ(bits_with(usable.substr(0, usable.size() - 1)), here);
  }
}

}  // namespace
}  // namespace weft
