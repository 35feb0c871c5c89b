// Writes token files: streamed, with bounded memory, and under the final name only when whole.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/token_format.hpp"
#include "io/atomic_file.hpp"

namespace weft::data {

class Tokenizer;

/// Appends documents to a new token file. Tokens are u16 when the vocabulary has at most 65536 ids, else u32.
/// Throws Error(bad_input) for a token id outside of the vocabulary, and what AtomicFile throws when the disk
/// refuses.
class TokenFileWriter {
 public:
  /// The names beside `path` under which a writer keeps what is not whole yet.
  static std::vector<std::string> temporary_names(const std::string& path);

  /// Creates the temporary files; vocabulary, bytes of each token and hash come from the tokenizer.
  TokenFileWriter(const std::string& path, const Tokenizer& tokenizer);

  /// Adds tokens to the document in progress.
  void append(std::span<const std::int32_t> tokens);
  /// Ends the document in progress, which may be empty. It adds no token: the caller appends an
  /// end-of-document token if it wants one.
  void end_document();
  /// Ends a document that is still in progress, writes the remaining sections and the header, and syncs. All
  /// of the file is then on storage, still under its temporary name; nothing may be appended to it.
  void complete();
  /// Gives a complete file its name.
  void publish();
  /// Completes and publishes the file.
  void finish();

  std::int64_t tokens() const { return static_cast<std::int64_t>(header_.tokens); }
  std::int64_t documents() const { return static_cast<std::int64_t>(header_.documents); }
  std::int64_t text_bytes() const { return static_cast<std::int64_t>(header_.text_bytes); }

 private:
  void put(const void* data, std::size_t bytes);
  void flush_piece();

  std::string path_;
  io::AtomicFile file_;
  io::AtomicFile starts_;  ///< document starts wait here, on disk; never committed
  TokenHeader header_;
  std::vector<std::uint16_t> token_bytes_;
  std::vector<std::byte> piece_;
  std::vector<std::byte> packed_;
  std::uint64_t position_ = sizeof(TokenHeader);
  std::uint64_t document_start_ = 0;
};

}  // namespace weft::data
