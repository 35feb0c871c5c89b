// Compares plans with stored texts that a reader can look up; WEFT_UPDATE_GOLDEN=1 in a test's environment
// writes these anew.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "ir/text.hpp"

namespace weft::test {

inline void expect_golden(const std::string& name, const ir::Graph& graph) {
  const std::string path = std::string(WEFT_SOURCE_DIR) + "/tests/unit/graph/plans/" + name + ".txt";
  const std::string text = ir::print(graph);
  if (std::getenv("WEFT_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::stringstream there;
  there << std::ifstream(path).rdbuf();
  EXPECT_EQ(ir::diff(there.str(), text), "") << path;
}

}  // namespace weft::test
