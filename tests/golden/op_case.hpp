// One case of ops.h5: its inputs on the device, and functions that compare what a kernel wrote with PyTorch's
// values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "kernels/memory.hpp"
#include "support/golden.hpp"

namespace weft::test {

using Array = std::vector<double>;

/// How a kernel rounds: `once`, from an fp32 value to its result; or `between`, its intermediate values, too.
enum class Rounding { once, between };

class OpCase {
 public:
  /// `path` is "<op>/<case>/<f32|bf16>", or "<op>/<case>" for ops that exist in fp32 only.
  OpCase(const GoldenFile& file, std::string path);

  const std::string& path() const { return path_; }
  DType type() const { return type_; }
  std::int64_t extent(const std::string& name, std::size_t dimension) const;
  double attr(const std::string& name) const { return file_.attr(path_, name); }
  bool has_attr(const std::string& name) const { return file_.has_attr(path_, name); }

  /// An input: as doubles, or on the device in the case's type (tokens stay int32).
  Array values(const std::string& name) const;
  std::vector<std::int32_t> tokens(const std::string& name) const { return file_.i32(path_ + "/" + name); }
  kernels::Buffer device(kernels::Space& space, const std::string& name) const;

  /// Expects `found`, of storage type `stored`, to be PyTorch's `name`:
  /// - fp32: within 1e-6 of the largest element, or 1.5 times PyTorch's own error where that is more;
  /// - bf16 rounded once: each element within half a unit in the last place and the fp32 bound;
  /// - bf16 rounded between: within half a unit in the last place of the largest element, or 1.5 times
  ///   PyTorch's own error.
  /// Results that are all zero are compared within 1e-6 of the largest element of dy. `extra` is an error
  /// that the kernel's contract brings with it.
  void expect(const std::string& name, const Array& found, DType stored, Rounding rounding = Rounding::once,
              double extra = 0) const;
  /// Expects `found`, from the readable reference, to be PyTorch's to the rounding of the golden file: 2e-7
  /// of the largest element.
  void expect_reference(const std::string& name, const Array& found) const;

 private:
  struct Bound {
    double of_element = 0;
    double of_largest = 0;
    double absolute = 0;
  };
  void compare(const std::string& name, const Array& found, const Bound& bound) const;

  const GoldenFile& file_;
  std::string path_;
  DType type_;
};

/// Calls `check` for each case of an operation and, where a case has them, for each dtype.
void for_each_case(const std::string& op, const std::function<void(const OpCase&)>& check);

/// Copies device memory to doubles.
Array to_host(kernels::Space& space, const kernels::Buffer& buffer, DType type, std::int64_t count);

kernels::Buffer upload(kernels::Space& space, const void* data, std::size_t bytes);
template <class T>
kernels::Buffer upload(kernels::Space& space, const std::vector<T>& values) {
  return upload(space, values.data(), values.size() * sizeof(T));
}

/// A buffer for a result. It is filled with NaN, so that a result that was not written cannot pass by luck.
kernels::Buffer output(kernels::Space& space, DType type, std::int64_t count);

}  // namespace weft::test
