// Compares plans with stored texts that a reader can look up. `WEFT_UPDATE_GOLDEN=1` in a test's environment
// writes those anew that have changed; the run that wrote one fails, because it has compared nothing.
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
  std::stringstream there;
  there << std::ifstream(path).rdbuf();
  if (std::getenv("WEFT_UPDATE_GOLDEN") != nullptr && there.str() != text) {
    std::ofstream(path) << text;
    ADD_FAILURE() << path
                  << " was written anew; read its difference, then run the test without WEFT_UPDATE_GOLDEN";
    return;
  }
  EXPECT_NE(there.str(), "") << path << " is empty or not there";
  EXPECT_EQ(ir::diff(there.str(), text), "") << path;
}

}  // namespace weft::test
