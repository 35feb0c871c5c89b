// Reads golden files: HDF5 files that tests/golden/make_golden.py writes with PyTorch's values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/unit.hpp"

namespace weft::test {

/// One golden file, opened for reading. Paths are "group/group/dataset". Every accessor throws
/// std::runtime_error that names file and path when the object is missing or holds another type. Two threads
/// may not use it at once (HDF5).
class GoldenFile {
 public:
  explicit GoldenFile(const std::string& path);
  ~GoldenFile();
  GoldenFile(const GoldenFile&) = delete;
  GoldenFile& operator=(const GoldenFile&) = delete;

  /// Names of the groups and datasets in a group ("" is the root), sorted.
  std::vector<std::string> children(const std::string& group) const;
  bool has(const std::string& path) const;
  /// Extents of a dataset; empty for a scalar.
  Shape shape(const std::string& path) const;

  /// These functions give whole datasets, row-major, of exactly the type that is stored; bf16 is stored as
  /// its bits, in uint16.
  std::vector<float> f32(const std::string& path) const;
  std::vector<double> f64(const std::string& path) const;
  std::vector<std::int32_t> i32(const std::string& path) const;
  std::vector<std::uint16_t> u16(const std::string& path) const;

  /// The number that is attached to a group or dataset.
  double attr(const std::string& path, const std::string& name) const;
  bool has_attr(const std::string& path, const std::string& name) const;

 private:
  template <class T>
  std::vector<T> read(const std::string& path, std::int64_t native_type) const;

  std::string name_;
  std::int64_t file_;  // an hid_t
};

}  // namespace weft::test
