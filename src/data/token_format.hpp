// The token file's layout on disk. All integers are little-endian. docs/data.md describes it for other
// readers.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft::data {

static_assert(std::endian::native == std::endian::little,
              "token files are mapped, so the host must be little-endian");

inline constexpr std::array<char, 8> token_magic{'W', 'E', 'F', 'T', 'T', 'O', 'K', '\n'};
inline constexpr std::uint32_t token_version = 1;

/// The header of a token file. The sections of the file are, in this order: header, tokens (padded with zeros
/// to 8 bytes), the u64 start of each document in tokens, and the u16 text bytes of each vocabulary id.
struct TokenHeader {
  std::array<char, 8> magic = token_magic;
  std::uint32_t version = token_version;
  std::uint32_t token_size = 0;  ///< bytes of a token: 2 or 4
  std::uint64_t vocab = 0;
  std::uint64_t tokens = 0;
  std::uint64_t documents = 0;
  std::uint64_t text_bytes = 0;  ///< sum of the token-bytes section over all tokens
  std::uint32_t tokenizer = 0;   ///< TokenizerKind
  std::int32_t end_of_document = -1;
  std::uint64_t tokenizer_hash = 0;
  std::uint64_t tokens_offset = 0;
  std::uint64_t documents_offset = 0;
  std::uint64_t token_bytes_offset = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t body_hash = 0;  ///< hash of the bytes after the header, made as hash_piece says
  std::array<std::uint64_t, 18> reserved{};
  std::uint64_t header_hash = 0;  ///< XXH3 of the bytes before this field
};
static_assert(sizeof(TokenHeader) == 256 && offsetof(TokenHeader, header_hash) == 248);

/// The size of the pieces in which the body is hashed: h = XXH3(piece, seed = h), from h = 0. Only the last
/// piece is shorter.
inline constexpr std::size_t hash_piece = std::size_t{1} << 20;

}  // namespace weft::data
