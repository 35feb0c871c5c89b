// Reads tokens that other codes have written: Megatron-LM, llm.c, and files of nothing but tokens (nanoGPT).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/file_reader.hpp"

namespace weft::data {

/// How the tokens of a file are stored.
enum class TokenType : std::uint8_t { u8, u16, i32, u32, i64 };
/// Bytes of one token.
std::size_t size_of(TokenType type);

/// An open file of tokens. Megatron-LM's index says where documents end; the other formats do not.
class ForeignTokens {
 public:
  virtual ~ForeignTokens() = default;
  ForeignTokens(const ForeignTokens&) = delete;
  ForeignTokens& operator=(const ForeignTokens&) = delete;

  /// Replaces `ids` by the next tokens, a million of them at most, and none behind the end of a document.
  /// Returns false behind the last one. Throws what FileReader throws.
  bool next(std::vector<std::int64_t>& ids);
  /// Whether the file says that a document ends behind the last tokens of next().
  bool ends_document() const { return left_in_document_ == 0; }

  const std::string& path() const { return path_; }
  /// The file that says where documents end; empty where there is none.
  const std::string& index_path() const { return index_path_; }
  std::string_view format() const { return format_; }
  std::int64_t tokens() const { return tokens_; }
  /// How many tokens next() has given.
  std::int64_t position() const { return position_; }

 protected:
  ForeignTokens(std::string path, std::string_view format) : path_(std::move(path)), format_(format) {}
  /// The number of tokens of the next document that has some; only called where tokens are left. -1: the file
  /// does not say where documents end.
  virtual std::int64_t next_document() = 0;

  std::string path_, index_path_;
  std::string_view format_;
  TokenType type_ = TokenType::u16;
  std::unique_ptr<FileReader> file_;
  std::int64_t first_byte_ = 0;  ///< where the tokens begin
  std::int64_t tokens_ = 0;

 private:
  std::int64_t position_ = 0;
  std::int64_t left_in_document_ = 0;
  std::vector<std::byte> piece_;
};

/// Opens PREFIX.bin beside which PREFIX.idx lies, or PREFIX, or PREFIX.idx (Megatron-LM), and reads all of
/// that index; or llm.c's file for GPT-2 (16 bits) or Llama 3 (32 bits). `raw_bytes` 2 or 4 takes a file as
/// unsigned integers of that size and nothing else; 0: the file tells. Throws Error(bad_input) for a file of
/// neither format, of a version or an element type that is not known, for files that are truncated or do not
/// go with each other, and with `raw_bytes` for a file that begins as one of a known format.
std::unique_ptr<ForeignTokens> open_foreign_tokens(const std::string& path, int raw_bytes = 0);

}  // namespace weft::data
