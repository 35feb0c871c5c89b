#include "data/token_file_writer.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "data/tokenizer.hpp"

namespace weft::data {
namespace {

std::vector<std::uint16_t> token_bytes_of(const Tokenizer& tokenizer) {
  std::vector<std::uint16_t> table(static_cast<std::size_t>(tokenizer.vocab()));
  for (std::size_t id = 0; id < table.size(); ++id) {
    const std::int64_t bytes = tokenizer.bytes_of(static_cast<std::int32_t>(id));
    WEFT_VALIDATE(bytes <= std::numeric_limits<std::uint16_t>::max(),
                  "token {} stands for {} bytes (a token file holds at most 65535)", id, bytes);
    table[id] = static_cast<std::uint16_t>(bytes);
  }
  return table;
}

}  // namespace

std::vector<std::string> TokenFileWriter::temporary_names(const std::string& path) {
  return {path + ".tmp", path + ".documents.tmp"};
}

TokenFileWriter::TokenFileWriter(const std::string& path, const Tokenizer& tokenizer)
    : path_(path),
      file_(path, io::Named::by_user),
      starts_(path + ".documents", io::Named::by_user),
      token_bytes_(token_bytes_of(tokenizer)) {
  header_.vocab = static_cast<std::uint64_t>(tokenizer.vocab());
  header_.token_size = header_.vocab <= 65536 ? 2 : 4;
  header_.tokenizer = static_cast<std::uint32_t>(tokenizer.kind());
  header_.tokenizer_hash = tokenizer.hash();
  header_.end_of_document = tokenizer.end_of_document();
  header_.tokens_offset = sizeof(TokenHeader);
  piece_.reserve(hash_piece);
  const TokenHeader blank{.magic = {}};  // it is no token file until complete()
  file_.append(&blank, sizeof blank);
}

void TokenFileWriter::append(std::span<const std::int32_t> tokens) {
  packed_.resize(tokens.size() * header_.token_size);
  std::byte* out = packed_.data();
  for (const std::int32_t token : tokens) {
    WEFT_VALIDATE(token >= 0 && static_cast<std::uint64_t>(token) < header_.vocab,
                  "{}: token id {} (the vocabulary has {})", path_, token, header_.vocab);
    header_.text_bytes += token_bytes_[static_cast<std::size_t>(token)];
    std::memcpy(out, &token, header_.token_size);  // little-endian: the low bytes come first
    out += header_.token_size;
  }
  put(packed_.data(), packed_.size());
  header_.tokens += tokens.size();
}

void TokenFileWriter::end_document() {
  starts_.append(&document_start_, sizeof document_start_);
  document_start_ = header_.tokens;
  ++header_.documents;
}

void TokenFileWriter::complete() {
  if (document_start_ < header_.tokens) end_document();
  const std::byte zeros[8]{};
  put(zeros, (8 - position_ % 8) % 8);
  header_.documents_offset = position_;
  std::vector<std::byte> block(hash_piece);
  std::int64_t offset = 0;
  while (const std::size_t n = starts_.read(offset, block.data(), block.size())) {
    put(block.data(), n);
    offset += static_cast<std::int64_t>(n);
  }
  header_.token_bytes_offset = position_;
  put(token_bytes_.data(), token_bytes_.size() * sizeof(std::uint16_t));
  flush_piece();
  header_.file_bytes = position_;
  header_.header_hash = hash_bytes(&header_, offsetof(TokenHeader, header_hash));
  file_.write_front(&header_, sizeof header_);
  file_.sync();
}

void TokenFileWriter::publish() {
  file_.commit();
}

void TokenFileWriter::finish() {
  complete();
  publish();
}

void TokenFileWriter::put(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  position_ += bytes;
  while (bytes > 0) {
    const std::size_t n = std::min(bytes, hash_piece - piece_.size());
    piece_.insert(piece_.end(), from, from + n);
    from += n;
    bytes -= n;
    if (piece_.size() == hash_piece) flush_piece();
  }
}

void TokenFileWriter::flush_piece() {
  if (piece_.empty()) return;
  header_.body_hash = hash_bytes(piece_.data(), piece_.size(), header_.body_hash);
  file_.append(piece_.data(), piece_.size());
  piece_.clear();
}

}  // namespace weft::data
