// Tests what `weft --version` says of the commit, the compiler and the libraries.
#include "base/version.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cctype>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace weft {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool says(const std::string& text) {
  return std::string_view(weft_build_text()).find(text) != std::string_view::npos;
}

/// Whether a version stands behind the name: "PCRE2 10.42".
bool has_version_of(const std::string& name) {
  const std::string text = weft_build_text();
  const std::size_t at = text.find(name + " ");
  if (at == std::string::npos) return false;
  const std::size_t begin = at + name.size() + 1;
  const std::string version = text.substr(begin, text.find_first_of(", \n", begin) - begin);
  return std::isdigit(static_cast<unsigned char>(version[0])) != 0 && version.find('.') != std::string::npos;
}

TEST(Version, TellsTheCommit) {
  const std::string_view commit = weft_git_hash();
  const bool is_hash = (commit.size() == 12 || commit.size() == 40) &&
                       commit.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  EXPECT_TRUE(is_hash || commit == "unknown") << commit;
}

/// Scripts look for it there (tests/builds.sh).
TEST(Version, WhatAllComputingRestsOnIsInTheFirstLine) {
  const std::string first = lines_of(weft_build_text()).at(0);
  EXPECT_NE(first.find("; Kokkos "), std::string::npos) << first;
  EXPECT_NE(first.find("MPI"), std::string::npos) << first;
  EXPECT_NE(first.find(", oneDNN "), std::string::npos) << first;
}

TEST(Version, NamesEachLibraryWithItsVersion) {
  SCOPED_TRACE(weft_build_text());
  for (const char* name :
       {"Kokkos", "HDF5", "oneDNN", "fmt", "spdlog", "toml++", "CLI11", "nlohmann-json", "xxHash", "zlib"})
    EXPECT_TRUE(has_version_of(name)) << name;
  EXPECT_TRUE(has_version_of("MPI") || has_version_of("MPICH"));
  EXPECT_TRUE(says("SentencePiece"));  // not every installation tells its version
  for (const char* name : {"PCRE2", "utf8proc"})
    EXPECT_TRUE(has_version_of(name) || says(fmt::format("without {}", name))) << name;
#ifdef WEFT_CUDA
  EXPECT_TRUE(has_version_of("NCCL"));
  EXPECT_TRUE(has_version_of("cuDNN") || says("without cuDNN"));
#else
  EXPECT_FALSE(says("NCCL") || says("cuDNN"));
#endif
}

TEST(Version, OfALibraryIsThatOfItsHeader) {
  EXPECT_TRUE(
      says(fmt::format("fmt {}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)))
      << weft_build_text();
}

TEST(Version, IsAFewLinesThatCanBeRead) {
  const std::vector<std::string> lines = lines_of(weft_build_text());
  EXPECT_GE(lines.size(), 3U);
  EXPECT_LE(lines.size(), 4U);
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 200U) << line;
    for (const char* hole : {", ,", ":,", "\\", "()", " ,"})
      EXPECT_EQ(line.find(hole), std::string::npos) << line;
    EXPECT_FALSE(line.empty() || line.ends_with(" ") || line.ends_with(",")) << line;
  }
}

}  // namespace
}  // namespace weft
