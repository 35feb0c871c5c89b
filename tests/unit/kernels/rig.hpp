// The helpers that kernel tests share: arrays on the device, random inputs that the storage type holds
// exactly, and comparison.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "kernels/memory.hpp"
#include "kernels/reference.hpp"
#include "kernels/space.hpp"

namespace weft::kernels::rig {

using reference::Array;
using reference::Tokens;

inline constexpr std::int64_t odd_sizes[] = {1, 3, 17, 255, 257, 1000};
inline constexpr DType float_types[] = {DType::f32, DType::bf16};

/// The space of the test program. It exists between the program's SetUp and its TearDown.
Space& space();

/// Random values: n normal numbers times `scale` plus `offset`, rounded to `t`, so that kernel and reference
/// read the same ones.
Array random(std::int64_t n, DType t, int seed, double scale = 1.0, double offset = 0.0);
Tokens random_tokens(std::int64_t n, std::int64_t vocab, int seed);

/// An array in device memory.
class Device {
 public:
  Device(const Array& values, DType t);
  Device(std::int64_t n, DType t);  ///< filled with bytes that no kernel should leave behind
  void* data() const { return buffer_.data(); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(buffer_.data());
  }
  Array read() const;
  std::vector<std::byte> bytes() const;

 private:
  DType type_;
  std::int64_t n_;
  Buffer buffer_;
};

/// Token ids in device memory.
class DeviceTokens {
 public:
  explicit DeviceTokens(const Tokens& tokens);
  const std::int32_t* data() const { return reinterpret_cast<const std::int32_t*>(buffer_.data()); }

 private:
  Buffer buffer_;
};

/// A scratch buffer that is filled with NaNs.
Buffer scratch(std::size_t bytes);

/// Whether |actual - expected| <= tolerance * (|expected| + root mean square of expected) + floor holds
/// everywhere.
testing::AssertionResult close(const Array& actual, const Array& expected, double tolerance,
                               double floor = 0.0);

/// The distance |actual - expected| / |expected| of the whole arrays.
double distance(const Array& actual, const Array& expected);

/// The tolerance of a comparison: a few roundings for fp32, and one rounding to 8 bits for bf16.
inline double tolerance(DType t, double f32 = 4e-6) {
  return t == DType::f32 ? f32 : 4.5e-3;
}

}  // namespace weft::kernels::rig
