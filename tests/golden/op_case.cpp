#include "golden/op_case.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace weft::test {

namespace {

constexpr double half_ulp_bf16 = 1.0 / 256;
constexpr double fp32_bound = 1e-6;
constexpr double reference_bound = 2e-7;

template <class T>
double largest(const std::vector<T>& values) {
  double result = 0;
  for (T x : values) result = std::max(result, std::fabs(static_cast<double>(x)));
  return result;
}

}  // namespace

OpCase::OpCase(const GoldenFile& file, std::string path)
    : file_(file), path_(std::move(path)), type_(path_.ends_with("/bf16") ? DType::bf16 : DType::f32) {}

std::int64_t OpCase::extent(const std::string& name, std::size_t dimension) const {
  return file_.shape(path_ + "/" + name).at(dimension);
}

Array OpCase::values(const std::string& name) const {
  Array result;
  if (type_ == DType::f32) {
    for (float x : file_.f32(path_ + "/" + name)) result.push_back(x);
  } else {
    for (std::uint16_t bits : file_.u16(path_ + "/" + name)) result.push_back(to_float(bf16{bits}));
  }
  return result;
}

kernels::Buffer OpCase::device(kernels::Space& space, const std::string& name) const {
  if (type_ == DType::bf16) return upload(space, file_.u16(path_ + "/" + name));
  return upload(space, file_.f32(path_ + "/" + name));
}

void OpCase::compare(const std::string& name, const Array& found, const Bound& bound) const {
  const auto wanted = file_.f32(path_ + "/" + name);
  ASSERT_EQ(found.size(), wanted.size()) << path_ << "/" << name;
  double scale = largest(wanted);
  if (scale == 0 && file_.has(path_ + "/dy")) scale = largest(values("dy"));
  const double allowed = bound.of_largest * scale + bound.absolute;
  std::size_t bad = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = std::fabs(found[i] - wanted[i]);
    if (error <= bound.of_element * std::fabs(wanted[i]) + allowed) continue;  // a NaN fails here
    if (bad++ == 0)
      ADD_FAILURE() << fmt::format(
          "{}/{}[{}] is {:.9g}, PyTorch's {:.9g}: {:.2e} apart, allowed {:.2e} + {:.2e} of the element",
          path_, name, i, found[i], wanted[i], error, allowed, bound.of_element);
  }
  EXPECT_EQ(bad, 0u) << path_ << "/" << name << ": elements beyond the bound, of " << found.size();
}

void OpCase::expect(const std::string& name, const Array& found, DType stored, Rounding rounding,
                    double extra) const {
  const double torch_error = has_attr(name + "_error") ? 1.5 * attr(name + "_error") : 0;
  if (stored == DType::f32 && type_ == DType::f32)
    compare(name, found, {0, std::max(fp32_bound, torch_error), extra});
  else if (rounding == Rounding::once)
    compare(name, found, {stored == DType::bf16 ? half_ulp_bf16 : 0, fp32_bound, extra});
  else
    compare(name, found, {0, std::max(half_ulp_bf16, torch_error), extra});
}

void OpCase::expect_reference(const std::string& name, const Array& found) const {
  compare(name, found, {0, reference_bound, 0});
}

void for_each_case(const std::string& op, const std::function<void(const OpCase&)>& check) {
  const GoldenFile file(WEFT_SOURCE_DIR "/tests/golden/ops.h5");
  const auto cases = file.children(op);
  ASSERT_FALSE(cases.empty()) << op;
  for (const auto& name : cases) {
    const std::string path = op + "/" + name;
    if (!file.has(path + "/f32")) check(OpCase(file, path));
    for (const char* type : {"/f32", "/bf16"})
      if (file.has(path + type)) check(OpCase(file, path + type));
  }
}

Array to_host(kernels::Space& space, const kernels::Buffer& buffer, DType type, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(type));
  kernels::copy_to_host(space, bytes.data(), buffer.data(), bytes.size());
  Array result(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::byte* at = bytes.data() + i * size_of(type);
    if (type == DType::bf16) {
      bf16 x;
      std::memcpy(&x, at, sizeof x);
      result[i] = to_float(x);
    } else if (type == DType::f32) {
      float x;
      std::memcpy(&x, at, sizeof x);
      result[i] = x;
    } else {
      std::memcpy(&result[i], at, sizeof(double));
    }
  }
  return result;
}

kernels::Buffer upload(kernels::Space& space, const void* data, std::size_t bytes) {
  kernels::Buffer buffer(bytes, "golden input");
  kernels::copy_to_device(space, buffer.data(), data, bytes);
  return buffer;
}

kernels::Buffer output(kernels::Space& space, DType type, std::int64_t count) {
  return upload(space, std::vector<std::uint8_t>(static_cast<std::size_t>(count) * size_of(type), 0xff));
}

}  // namespace weft::test
