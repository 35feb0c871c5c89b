#include "ckpt/hdf5.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/check.hpp"

namespace weft::ckpt::detail {

std::unique_lock<std::mutex> lock_hdf5() {
  static std::mutex mutex;
  std::unique_lock lock(mutex);
  H5open();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  return lock;
}

namespace {

/// Why a call of the library failed: "file signature not found", or what the system said to its driver.
struct Reason {
  std::string text;
  int error = 0;  ///< the system's errno; 0 when the reason is the library's own
};

/// The innermost description of the library's stack of errors.
Reason innermost_reason() {
  std::string reason;
  const auto visit = [](unsigned n, const H5E_error2_t* error, void* out) -> herr_t {
    if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, visit, &reason);
  const std::string key = "error message = '";
  if (const auto at = reason.find(key); at != std::string::npos) {
    const auto begin = at + key.size();
    const std::string number = "errno = ";
    const auto digits = reason.find(number);
    const int error = digits == std::string::npos ? 0 : std::atoi(reason.c_str() + digits + number.size());
    return {reason.substr(begin, reason.find('\'', begin) - begin), error};
  }
  return {reason.empty() ? "no reason given" : reason, 0};
}

Hid string_type() {
  const hid_t type = CHECK_HDF5("a type", H5Tcopy(H5T_C_S1));
  CHECK_HDF5("a type", H5Tset_size(type, H5T_VARIABLE));
  CHECK_HDF5("a type", H5Tset_cset(type, H5T_CSET_UTF8));
  return Hid(type);
}

void write_attribute(hid_t object, const char* name, hid_t file_type, hid_t memory_type, const void* value) {
  const Hid scalar(CHECK_HDF5(name, H5Screate(H5S_SCALAR)));
  const Hid attribute(
      CHECK_HDF5(name, H5Acreate2(object, name, file_type, scalar, H5P_DEFAULT, H5P_DEFAULT)));
  CHECK_HDF5(name, H5Awrite(attribute, memory_type, value));
}

}  // namespace

template <class T>
T check_hdf5(T result, std::string_view file, const char* expression, const char* source, int line) {
  if (result >= 0) return result;
  std::string call(expression);
  call = call.substr(0, call.find('('));
  const Reason reason = innermost_reason();
  const std::string message =
      fmt::format("cannot use {} ({}; {} at {}:{})", file, reason.text, call, io::base_name(source), line);
  if (reason.error != 0 && reason.error != ENOENT) throw io::Unreadable(message);
  throw Error(ExitCode::bad_checkpoint, message);
}
template herr_t check_hdf5(herr_t, std::string_view, const char*, const char*, int);
template hid_t check_hdf5(hid_t, std::string_view, const char*, const char*, int);

Hid file_type(DType dtype) {
  const auto copy = [](hid_t type) { return CHECK_HDF5("a type", H5Tcopy(type)); };
  switch (dtype) {
    case DType::f32: return Hid(copy(H5T_IEEE_F32LE));
    case DType::f64: return Hid(copy(H5T_IEEE_F64LE));
    case DType::i32: return Hid(copy(H5T_STD_I32LE));
    case DType::i64: return Hid(copy(H5T_STD_I64LE));
    case DType::u8: return Hid(copy(H5T_STD_U8LE));
    case DType::u16: return Hid(copy(H5T_STD_U16LE));
    case DType::u32: return Hid(copy(H5T_STD_U32LE));
    case DType::u64: return Hid(copy(H5T_STD_U64LE));
    case DType::e4m3:
    case DType::e5m2: throw std::logic_error("a checkpoint holds no Float8");
    case DType::bf16: break;
  }
  const hid_t type = copy(H5T_IEEE_F32LE);
  CHECK_HDF5("a type", H5Tset_fields(type, 15, 7, 8, 0, 7));  // sign; exponent at, bits; mantissa at, bits
  CHECK_HDF5("a type", H5Tset_size(type, 2));
  CHECK_HDF5("a type", H5Tset_ebias(type, 127));
  return Hid(type);
}

void write_attribute(hid_t object, const char* name, std::int64_t value) {
  write_attribute(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void write_attribute(hid_t object, const char* name, std::uint64_t value) {
  write_attribute(object, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &value);
}

void write_attribute(hid_t object, const char* name, const std::string& value) {
  const Hid type = string_type();
  const char* text = value.c_str();
  write_attribute(object, name, type, type, &text);
}

ScratchFile::ScratchFile(std::int64_t metadata_bytes, std::int64_t alignment)
    : fd_(::memfd_create("weft-checkpoint", MFD_CLOEXEC)) {
  if (fd_ < 0) io::fail_errno("create", "a file in memory", errno);
  try {
    const std::string path = fmt::format("/proc/self/fd/{}", fd_);
    const Hid access(CHECK_HDF5(path, H5Pcreate(H5P_FILE_ACCESS)));
    // The 1.10 format checksums its metadata, so that a damaged header is found, not misread.
    CHECK_HDF5(path, H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110));
    CHECK_HDF5(path, H5Pset_meta_block_size(access, static_cast<hsize_t>(metadata_bytes)));
    const auto align = static_cast<hsize_t>(alignment);
    CHECK_HDF5(path, H5Pset_alignment(access, align, align));
    // The default driver asks for the real path, which a file in memory has not.
    CHECK_HDF5(path, H5Pset_fapl_stdio(access));
    file_ = CHECK_HDF5(path, H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access));
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

ScratchFile::~ScratchFile() {
  if (file_ >= 0) H5Fclose(file_);
  ::close(fd_);
}

void ScratchFile::finish(io::File& out, const Written& written) {
  const hid_t file = file_;
  file_ = H5I_INVALID_HID;
  CHECK_HDF5("a scratch file", H5Fclose(file));
  const std::int64_t bytes = ::lseek(fd_, 0, SEEK_END);
  out.resize(bytes);
  std::vector<char> buffer(std::size_t{1} << 20);
  for (std::int64_t at = ::lseek(fd_, 0, SEEK_DATA); at >= 0 && at < bytes;) {
    const std::int64_t end = ::lseek(fd_, at, SEEK_HOLE);
    while (at < end) {
      const auto n = ::pread(fd_, buffer.data(), std::min<std::size_t>(buffer.size(), end - at), at);
      if (n <= 0) io::fail_errno("read", "a scratch file", errno);
      out.write_at(buffer.data(), static_cast<std::size_t>(n), at);
      if (written) written(at, {buffer.data(), static_cast<std::size_t>(n)});
      at += n;
    }
    at = ::lseek(fd_, at, SEEK_DATA);  // fails with ENXIO after the last extent
  }
}

Hid open_for_reading(const std::string& path) {
  const Hid access(CHECK_HDF5(path, H5Pcreate(H5P_FILE_ACCESS)));
#if H5_VERSION_GE(1, 10, 7)
  CHECK_HDF5(path, H5Pset_file_locking(access, false, true));
#endif
  return Hid(CHECK_HDF5(path, H5Fopen(path.c_str(), H5F_ACC_RDONLY, access)));
}

}  // namespace weft::ckpt::detail
