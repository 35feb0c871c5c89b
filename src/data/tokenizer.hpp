// Tokenizers turn text into token ids and back without loss, for any bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/token_file.hpp"

namespace weft::data {

/// A tokenizer: decode(encode(text)) == text for every string of bytes, valid UTF-8 or not, unless it
/// normalizes, or the text spells a token that is put around documents. It may be used from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Appends the ids of `text` to `ids`.
  virtual void encode_append(std::string_view text, std::vector<std::int32_t>& ids) const = 0;
  /// The last place at which `text`, of a megabyte or more, may be cut without changing the ids of it and of
  /// what follows; where there is none, a place between two characters at which it is cut all the same, or 0,
  /// when more text should be read first.
  virtual std::size_t last_cut(std::string_view text) const;
  /// The bytes that `id` stands for; empty for what is put around documents and for control tokens.
  virtual std::string_view text_of(std::int32_t id) const = 0;
  virtual std::int64_t vocab() const = 0;
  /// The token that stands before each document, or -1.
  virtual std::int32_t begin_of_document() const { return -1; }
  virtual std::int32_t end_of_document() const = 0;
  /// Whether the ids stand for the text in Unicode's normalization form C.
  virtual bool normalizes() const { return false; }
  virtual TokenizerKind kind() const = 0;
  /// XXH3 of the model; two tokenizers with equal hashes are the same.
  virtual std::uint64_t hash() const = 0;

  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The text of the ids. A character that is cut between tokens is returned cut. Throws Error(bad_input) for
  /// an id outside of the vocabulary.
  std::string decode(std::span<const std::int32_t> ids) const;
  std::int64_t bytes_of(std::int32_t id) const { return static_cast<std::int64_t>(text_of(id).size()); }
};

/// The tokenizer whose ids 0..255 are the bytes, and whose id 256 ends a document: a vocabulary of 257.
std::unique_ptr<Tokenizer> byte_tokenizer();

/// Opens the tokenizer "byte", or a SentencePiece model or a tokenizer.json by its path; which of the two it
/// is, its first byte tells. `end_of_document` is the token of a tokenizer.json that ends documents; empty:
/// the file tells. Throws Error(bad_input) when there is no such file, when it loses text, and for an
/// `end_of_document` of another tokenizer.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& spec, const std::string& end_of_document = {});

}  // namespace weft::data
