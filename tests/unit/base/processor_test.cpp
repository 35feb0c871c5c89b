// Tests which instruction sets a program needs, and which the processor has.
#include "base/processor.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace weft::processor {
namespace {

std::string names(Sets sets, std::size_t size = 512) {
  std::string text(size, '?');
  write_names(sets, text.data(), size);
  return text.c_str();
}

TEST(Processor, NamesAreTold) {
  EXPECT_EQ(names(0), "");
  EXPECT_EQ(names(named("avx2")), "avx2");
  EXPECT_EQ(names(named("avx512f") | named("fma")), "fma, avx512f");
  EXPECT_EQ(names(named("avx512f") | named("fma"), 6), "fma, ");
  EXPECT_EQ(named("avx1024"), 0U);
}

/// This is the compiler's own list, found in another way than by the table: what this file may use.
TEST(Processor, WasBuiltForWhatTheCompilerMayUse) {
#ifdef __AVX2__
  EXPECT_NE(built_for & named("avx2"), 0U);
#else
  EXPECT_EQ(built_for & named("avx2"), 0U);
#endif
#ifdef __AVX512VNNI__
  EXPECT_NE(built_for & named("avx512_vnni"), 0U);
#else
  EXPECT_EQ(built_for & named("avx512_vnni"), 0U);
#endif
}

TEST(Processor, LacksNothingThatThisProgramWasBuiltFor) {
  EXPECT_EQ(names(built_for & ~present()), "");
}

/// GCC's own look at cpuid must give the same.
TEST(Processor, HasWhatTheCompilersLibrarySays) {
  EXPECT_EQ((present() & named("sse4.2")) != 0, __builtin_cpu_supports("sse4.2") != 0);
  EXPECT_EQ((present() & named("avx2")) != 0, __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ((present() & named("fma")) != 0, __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ((present() & named("avx512f")) != 0, __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ((present() & named("avx512_vnni")) != 0, __builtin_cpu_supports("avx512vnni") != 0);
  EXPECT_EQ((present() & named("gfni")) != 0, __builtin_cpu_supports("gfni") != 0);
}

}  // namespace
}  // namespace weft::processor
