#include "data/sequences.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.hpp"

namespace weft::data {

Sequences::Sequences(std::vector<TokenFile> files, std::int64_t seq, Positions positions)
    : files_(std::move(files)), seq_(seq), positions_(positions) {
  WEFT_EXPECT(seq > 0 && !files_.empty());
  std::int64_t end = 0;
  for (const TokenFile& file : files_) {
    const std::int64_t sequences = (file.tokens() - 1) / seq;
    WEFT_VALIDATE(sequences > 0,
                  "{} has {} tokens (data.seq is {}, and a sample needs data.seq + 1); shorten data.seq or "
                  "give more text",
                  file.path(), file.tokens(), seq);
    check_same_tokenizer(file, files_[0]);
    WEFT_VALIDATE(positions == Positions::of_sequence || file.end_of_document() >= 0,
                  "{} has no end-of-document token, by which data.document_mask tells documents apart",
                  file.path());
    ends_.push_back(end += sequences);
  }
}

std::size_t Sequences::file_of(std::int64_t w) const {
  return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), w) - ends_.begin());
}

void Sequences::copy(std::int64_t w, std::int32_t* tokens, std::int32_t* targets,
                     std::int32_t* positions) const {
  const std::size_t file = file_of(w);
  const std::int64_t first = (w - begin_of(file)) * seq_;
  files_[file].read(first, seq_, tokens);
  files_[file].read(first + 1, seq_, targets);
  if (positions_ == Positions::of_sequence) return std::iota(positions, positions + seq_, 0);
  number_in_documents({tokens, static_cast<std::size_t>(seq_)}, files_[file].end_of_document(), positions);
}

void number_in_documents(std::span<const std::int32_t> tokens, std::int32_t end_of_document,
                         std::int32_t* positions) {
  std::int32_t position = 0;
  for (const std::int32_t token : tokens) {
    *positions++ = position++;
    if (token == end_of_document) position = 0;
  }
}

std::int64_t Sequences::target_bytes(std::int64_t begin, std::int64_t end) const {
  std::int64_t bytes = 0;
  while (begin < end) {
    const std::size_t file = file_of(begin);
    const std::int64_t stop = std::min(end, ends_[file]);
    bytes += files_[file].bytes_of((begin - begin_of(file)) * seq_ + 1, (stop - begin) * seq_);
    begin = stop;
  }
  return bytes;
}

}  // namespace weft::data
