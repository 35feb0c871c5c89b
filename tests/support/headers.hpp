// The headers that most tests include, for precompilation (tests/support/CMakeLists.txt). They are those of
// the standard library, fmt and GoogleTest, and none of Weft's. A test still includes what it uses, because
// the cuda preset and clang-tidy do without this file.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>
