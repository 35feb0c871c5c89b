// Reads a file, or standard input, that may be compressed by gzip.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <string>
#include <vector>

#include "io/descriptor.hpp"

namespace weft::data {

/// The bytes of an input. What begins like gzip is inflated, one member after the other; zeros may fill the
/// end of the file, as gzip(1) allows. What begins otherwise is passed on as it is. Throws Error(bad_input)
/// for what is not there, for damaged gzip data, and for anything else behind a gzip member;
/// Error(environment) when storage cannot be read.
class ByteStream {
 public:
  /// Opens a file, or standard input for "-".
  explicit ByteStream(const std::string& path);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  /// Appends up to 256 KiB to `out`; returns false at the end.
  bool read(std::string& out);

 private:
  std::size_t read_input(unsigned char* to, std::size_t room);
  bool fill();
  std::size_t copy(char* to, std::size_t room);
  std::size_t unpack(char* to, std::size_t room);
  bool begin_member();
  void pass_padding();

  std::string path_;
  io::Descriptor file_;
  std::vector<unsigned char> input_;
  z_stream zip_{};  ///< its next_in and avail_in are the part of `input_` that has not been used, gzip or not
  bool is_gzip_ = false;
  bool inside_ = false;  ///< a gzip member has begun and has not ended
};

}  // namespace weft::data
