#include "support/golden.hpp"

#include <fmt/core.h>
#include <hdf5.h>

#include <stdexcept>
#include <type_traits>

namespace weft::test {

static_assert(std::is_same_v<hid_t, std::int64_t> || sizeof(hid_t) == sizeof(std::int64_t));

namespace {

/// Closes an HDF5 identifier with its own function.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  hid_t id() const { return id_; }
  bool ok() const { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

[[noreturn]] void fail(const std::string& file, const std::string& path, const char* what) {
  throw std::runtime_error(fmt::format("golden file {}: {}: {}", file, path, what));
}

/// HDF5 prints its error stack by default; the exceptions here say enough.
void silence_hdf5() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

}  // namespace

GoldenFile::GoldenFile(const std::string& path) : name_(path) {
  silence_hdf5();
  file_ = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file_ < 0) fail(name_, "/", "cannot be opened (missing, or not HDF5)");
}

GoldenFile::~GoldenFile() {
  H5Fclose(file_);
}

std::vector<std::string> GoldenFile::children(const std::string& group) const {
  const Handle handle(H5Gopen2(file_, group.empty() ? "/" : group.c_str(), H5P_DEFAULT), H5Gclose);
  H5G_info_t info;
  if (!handle.ok() || H5Gget_info(handle.id(), &info) < 0) fail(name_, group, "no such group");
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const auto length =
        H5Lget_name_by_idx(handle.id(), ".", H5_INDEX_NAME, H5_ITER_INC, i, nullptr, 0, H5P_DEFAULT);
    std::string name(static_cast<std::size_t>(length), '\0');
    H5Lget_name_by_idx(handle.id(), ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(), name.size() + 1,
                       H5P_DEFAULT);
    names.push_back(std::move(name));
  }
  return names;
}

bool GoldenFile::has(const std::string& path) const {
  for (std::size_t end = path.find('/');; end = path.find('/', end + 1)) {
    if (H5Lexists(file_, path.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return false;
    if (end == std::string::npos) return true;
  }
}

Shape GoldenFile::shape(const std::string& path) const {
  const Handle set(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!set.ok()) fail(name_, path, "no such dataset");
  const Handle space(H5Dget_space(set.id()), H5Sclose);
  std::vector<hsize_t> extents(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.id())));
  H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
  return Shape(extents.begin(), extents.end());
}

template <class T>
std::vector<T> GoldenFile::read(const std::string& path, std::int64_t native_type) const {
  const Handle set(H5Dopen2(file_, path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!set.ok()) fail(name_, path, "no such dataset");
  const Handle stored(H5Dget_type(set.id()), H5Tclose);
  if (H5Tequal(stored.id(), native_type) <= 0) fail(name_, path, "has another type");
  std::vector<T> values(static_cast<std::size_t>(element_count(shape(path))));
  if (H5Dread(set.id(), native_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0)
    fail(name_, path, "cannot be read");
  return values;
}

std::vector<float> GoldenFile::f32(const std::string& path) const {
  return read<float>(path, H5T_NATIVE_FLOAT);
}
std::vector<double> GoldenFile::f64(const std::string& path) const {
  return read<double>(path, H5T_NATIVE_DOUBLE);
}
std::vector<std::int32_t> GoldenFile::i32(const std::string& path) const {
  return read<std::int32_t>(path, H5T_NATIVE_INT32);
}
std::vector<std::uint16_t> GoldenFile::u16(const std::string& path) const {
  return read<std::uint16_t>(path, H5T_NATIVE_UINT16);
}

double GoldenFile::attr(const std::string& path, const std::string& name) const {
  const Handle attribute(H5Aopen_by_name(file_, path.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose);
  double value = 0;
  if (!attribute.ok() || H5Aread(attribute.id(), H5T_NATIVE_DOUBLE, &value) < 0)
    fail(name_, path, fmt::format("no number {}", name).c_str());
  return value;
}

bool GoldenFile::has_attr(const std::string& path, const std::string& name) const {
  return H5Aexists_by_name(file_, path.c_str(), name.c_str(), H5P_DEFAULT) > 0;
}

}  // namespace weft::test
