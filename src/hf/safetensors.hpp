// Reads and writes the header of a safetensors file. The file begins with eight bytes that hold the length of
// a JSON text, little-endian. The text says of each tensor its type, shape and bytes. Then come the tensors'
// bytes, without holes. Everything else is refused, because weights that are read wrongly do not show.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::hf {

struct Tensor {
  std::string name;
  std::string dtype;                ///< as the format spells it: "BF16"
  std::vector<std::int64_t> shape;  ///< row-major; empty: a single number
  std::int64_t begin = 0;           ///< first byte, counted from the end of the header
  std::int64_t bytes = 0;
};

struct Header {
  std::vector<Tensor> tensors;  ///< sorted by their first byte
  std::int64_t data_begin = 0;  ///< where in the file the tensors' bytes begin
};

/// The longest header that is read, in bytes; the format's own library has the same limit.
inline constexpr std::int64_t max_header_bytes = 100'000'000;
inline constexpr std::int64_t length_bytes = 8;

/// The length of the JSON text, from the first eight bytes of a file of `file_bytes`. Throws
/// Error(bad_checkpoint) unless the file can hold so many bytes, and they are no more than max_header_bytes.
/// `name` is the file's name in messages.
std::int64_t header_length(std::string_view first_bytes, std::uint64_t file_bytes, const std::string& name);

/// Reads the header of a file of `file_bytes`; `bytes` are its first bytes, or all. Throws
/// Error(bad_checkpoint), with one line that names file and tensor, when it is truncated, is not JSON, has a
/// key twice, an unknown type, or a shape whose product is not the tensor's bytes, and when tensors overlap,
/// leave a hole or end outside the file. Takes memory in proportion to the header.
Header parse_header(std::string_view bytes, std::uint64_t file_bytes,
                    const std::string& name = "the safetensors file");

/// The header of tensors in the order of their first bytes: length and JSON text, padded with spaces to a
/// multiple of eight bytes.
std::string header_text(const std::vector<Tensor>& tensors);

/// A tensor's name for messages: in quotes, and shortened.
std::string shown(std::string_view name);
std::string shown(const std::vector<std::int64_t>& shape);

}  // namespace weft::hf
