// A thin, safe layer over HDF5's C API: owned ids, one caller at a time, errors as one line.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.hpp"
#include "io/file.hpp"

namespace weft::ckpt::detail {

/// Locks HDF5 for the caller, because the library is not thread-safe in most builds; take it around every
/// use. It also silences HDF5's printer of error stacks.
std::unique_lock<std::mutex> lock_hdf5();

/// Throws Error(bad_checkpoint) "cannot use FILE (HDF5's innermost reason; CALL at PLACE)" when result < 0,
/// or Unreadable where the reason is the system's.
template <class T>
T check_hdf5(T result, std::string_view file, const char* expression, const char* source, int line);
#define CHECK_HDF5(file, expression) \
  ::weft::ckpt::detail::check_hdf5((expression), (file), #expression, __FILE__, __LINE__)

extern template herr_t check_hdf5(herr_t, std::string_view, const char*, const char*, int);
extern template hid_t check_hdf5(hid_t, std::string_view, const char*, const char*, int);

/// Owns an HDF5 id of any kind.
class Hid {
 public:
  explicit Hid(hid_t id) : id_(id) {}
  ~Hid() { H5Idec_ref(id_); }
  Hid(const Hid&) = delete;
  Hid& operator=(const Hid&) = delete;
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
};

/// The file type of an element, little-endian; bf16 is described as an 8-bit-exponent float.
Hid file_type(DType dtype);

void write_attribute(hid_t object, const char* name, std::int64_t value);
void write_attribute(hid_t object, const char* name, std::uint64_t value);
void write_attribute(hid_t object, const char* name, const std::string& value);  ///< variable-length UTF-8

/// An HDF5 file that is formatted in memory (memfd, which no other process and no quota can fill), then
/// copied to its place. HDF5 cannot close a file that it cannot flush: it keeps it, and dies of it at the end
/// of the process. So storage that may be full or failing is only ever written by File, where an error is an
/// errno. Raw data may be allocated in it, but not written: what HDF5 didn't touch stays a hole, and costs
/// nothing.
class ScratchFile {
 public:
  /// `metadata_bytes` is about how much HDF5 will write. Objects of at least `alignment` bytes start at a
  /// multiple of it.
  ScratchFile(std::int64_t metadata_bytes, std::int64_t alignment);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  hid_t id() const { return file_; }
  using Written = std::function<void(std::int64_t offset, std::span<const char> bytes)>;
  /// Closes the HDF5 file, and copies what was written in it to `out`, which gets the same size. Calls
  /// `written` for every stretch of bytes that is copied.
  void finish(io::File& out, const Written& written = {});

 private:
  int fd_ = -1;
  hid_t file_ = H5I_INVALID_HID;
};

/// Opens an HDF5 file for reading, without file locks (many parallel file systems refuse them).
Hid open_for_reading(const std::string& path);

}  // namespace weft::ckpt::detail
