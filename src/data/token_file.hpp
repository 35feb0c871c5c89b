// Reads token files. They are memory-mapped, so that the ranks of a host share the page cache, and opening
// costs nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace weft::data {

class Tokenizer;
enum class TokenizerKind : std::uint32_t { unknown = 0, byte = 1, sentencepiece = 2, bpe = 3 };
std::string_view name_of(TokenizerKind kind);

/// An open token file; cheap to copy, safe to read from several threads.
class TokenFile {
 public:
  /// Maps `path` and checks magic, version, header checksum, and the sizes of sections and file; the body is
  /// not read. Throws Error(bad_input) with one line when the file is missing, no token file, of another
  /// version, damaged or truncated, and Error(environment) when storage cannot be read or mapped.
  static TokenFile open(const std::string& path);
  /// Opens a file that stands in memory, aligned to 8 bytes; `bytes` outlive the TokenFile and its copies.
  /// `name` is used in the place of a path.
  static TokenFile in_memory(const std::string& name, std::span<const std::byte> bytes);

  const std::string& path() const;
  std::int64_t tokens() const;
  std::int64_t vocab() const;  ///< every token id is below this
  std::int64_t documents() const;
  std::int64_t text_bytes() const;  ///< bytes of text that all tokens stand for
  int token_size() const;           ///< bytes on disk of one token: 2 or 4
  TokenizerKind tokenizer() const;
  std::uint64_t tokenizer_hash() const;  ///< Tokenizer::hash() of the tokenizer that wrote the file
  std::int32_t end_of_document() const;  ///< the id of the token that ends a document, or -1
  std::int64_t bytes() const;            ///< size of the file
  std::uint64_t body_hash() const;       ///< checksum of all after the header, as the header has it
  /// A number that differs between files of different content: the checksum of the header, which has sizes,
  /// tokenizer and the body's checksum.
  std::uint64_t fingerprint() const;
  /// What storage_identity() says of the file that was opened; empty for a file in memory.
  const std::string& identity() const;

  /// Copies tokens [begin, begin + count) to `out`. Throws Error(bad_input) when an id is not below vocab().
  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const;
  /// How many bytes of text the tokens [begin, begin + count) stand for; end-of-document tokens count zero.
  std::int64_t bytes_of(std::int64_t begin, std::int64_t count) const;
  /// How many bytes of text one id stands for.
  std::int64_t token_bytes(std::int32_t id) const;
  /// The first token of document `i`; document_start(documents()) is tokens().
  std::int64_t document_start(std::int64_t i) const;
  /// Reads all of the body: throws Error(bad_input) unless its checksum and all sums and orders hold.
  void verify() const;

 private:
  struct Contents;
  explicit TokenFile(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  std::shared_ptr<const Contents> contents_;
};

/// A text that differs from one open file to another, and changes when a file is written to: inode, size and
/// time of the last change and, on a file system of this host alone (ext4, XFS, tmpfs ...), the name of the
/// host, because hosts that were made from one image agree in all the rest. It is equal on all hosts that
/// share the file system. Throws Error(environment), which names `path`.
std::string storage_identity(int fd, const std::string& path);

/// Throws Error(bad_input) unless a model with `model_vocab` embeddings has one for each token of the file.
void check_vocabulary(const TokenFile& file, std::int64_t model_vocab);

/// Throws Error(bad_input), with what differs, unless one tokenizer wrote both files, as far as they tell: by
/// its hash, the vocabulary, the end-of-document token, and the bytes of text of each id. A file that was
/// made elsewhere may have no hash of its tokenizer, which is a 0.
void check_same_tokenizer(const TokenFile& file, const TokenFile& other);

/// Throws Error(bad_input) unless `tokenizer` is the one that wrote the file.
void check_tokenizer(const TokenFile& file, const Tokenizer& tokenizer);

}  // namespace weft::data
