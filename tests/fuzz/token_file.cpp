// The fuzz target for token files. The header has a checksum, and sizes that must fit each other and the
// file; the body has a checksum, too. Most of the time, what the fuzzer changes is made to fit.
#include "data/token_file.hpp"

#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "base/hash.hpp"
#include "data/sequences.hpp"
#include "data/token_format.hpp"
#include "fuzz.hpp"

using namespace weft;
using namespace weft::data;

namespace {

/// Makes the sizes of sections fit, beginning with the header's own as far as there is room. Returns the
/// file's size, which may be some bytes less.
std::size_t fit(TokenHeader& header, std::size_t size) {
  header.token_size = header.token_size % 4 == 0 ? 4 : 2;
  std::uint64_t room = size - sizeof header;
  header.vocab = std::min(header.vocab, room / 2);
  room -= 2 * header.vocab;
  header.documents = std::min(header.documents, room / 8);
  room -= 8 * header.documents;
  header.vocab += room % 8 / 2;
  const std::uint64_t padded = room / 8 * 8;
  header.tokens = padded / header.token_size - (padded > 0 ? header.tokens % (8 / header.token_size) : 0);
  header.tokens_offset = sizeof header;
  header.documents_offset = sizeof header + padded;
  header.token_bytes_offset = header.documents_offset + 8 * header.documents;
  header.file_bytes = header.token_bytes_offset + 2 * header.vocab;
  return header.file_bytes;
}

std::size_t repair(std::uint8_t* data, std::size_t size, unsigned seed) {
  if (size < sizeof(TokenHeader)) return size;
  TokenHeader header;
  std::memcpy(&header, data, sizeof header);
  if (seed % 4 != 0) {
    header.magic = token_magic;
    header.version = token_version;
    size = fit(header, size);
  }
  if (seed % 8 != 1) header.body_hash = hash_bytes(data + sizeof header, size - sizeof header);
  header.header_hash = hash_bytes(&header, offsetof(TokenHeader, header_hash));
  std::memcpy(data, &header, sizeof header);
  return size;
}

void verified(const TokenFile& file) {
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < file.documents(); ++i) {
    fuzz::require(file.document_start(i) >= end, "documents are in order");
    end = file.document_start(i);
  }
  fuzz::require(end <= file.tokens(), "documents are of tokens");
  fuzz::require(file.bytes_of(0, file.tokens()) == file.text_bytes(), "tokens stand for the text");
}

void read(const TokenFile& file) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file.tokens()));
  if (!fuzz::refused([&] { file.read(0, file.tokens(), ids.data()); }))
    for (const std::int32_t id : ids) {
      fuzz::require(id >= 0 && id < file.vocab(), "ids are of the vocabulary");
      file.token_bytes(id);
    }
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  fuzz::require(fuzz::refused([&] { file.read(file.tokens(), 1, ids.data()); }), "no token behind the end");
  fuzz::require(fuzz::refused([&] { file.read(1, most, ids.data()); }), "no token behind the end");
  fuzz::require(fuzz::refused([&] { file.document_start(file.documents() + 1); }),
                "no document behind the end");
  fuzz::refused([&] { check_vocabulary(file, 100); });
}

void walk_sequences(const TokenFile& file, Positions kind) {
  constexpr std::int64_t seq = 3;
  std::int32_t tokens[seq], targets[seq], positions[seq];
  fuzz::refused([&] {
    const Sequences sequences({file, file}, seq, kind);
    for (std::int64_t w = 0; w < sequences.count(); ++w) {
      sequences.copy(w, tokens, targets, positions);
      fuzz::require(tokens[1] == targets[0] && positions[0] == 0, "targets are the next tokens");
    }
    sequences.target_bytes(0, sequences.count());
  });
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  return seed % 16 == 0 ? size : repair(data, size, seed / 16);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::unique_ptr<const TokenFile> file;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (fuzz::refused([&] { file = std::make_unique<const TokenFile>(TokenFile::in_memory("tokens", bytes)); }))
    return 0;
  read(*file);
  walk_sequences(*file, Positions::of_sequence);
  walk_sequences(*file, Positions::of_document);
  if (!fuzz::refused([&] { file->verify(); })) verified(*file);
  return 0;
}
