// The samples that are cut from token files: sequences of a fixed length.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/token_file.hpp"

namespace weft::data {

/// What the positions of a sequence's tokens count from.
enum class Positions {
  of_sequence,  ///< from the sequence's beginning: 0..seq-1
  of_document   ///< from the document's beginning: again from 0 behind each end-of-document token
};

/// Numbers the tokens of a sequence from its beginning, and again from 0 behind each token `end_of_document`.
void number_in_documents(std::span<const std::int32_t> tokens, std::int32_t end_of_document,
                         std::int32_t* positions);

/// A file of N tokens holds (N - 1) / seq sequences. Sequence w of it is tokens [w*seq, w*seq + seq]: the
/// first seq of them are its inputs, and the last seq its targets. Numbers go on from file to file, in the
/// files' order. A sequence may span documents, but not files, and all its targets are learnt.
class Sequences {
 public:
  /// Throws Error(bad_input) when a file has no whole sequence, is of another tokenizer than the first, or
  /// has no end-of-document token where positions need it.
  Sequences(std::vector<TokenFile> files, std::int64_t seq, Positions positions = Positions::of_sequence);

  const std::vector<TokenFile>& files() const { return files_; }
  std::int64_t count() const { return ends_.back(); }
  std::int64_t seq() const { return seq_; }
  /// Copies sequence w: seq tokens, their targets and positions.
  void copy(std::int64_t w, std::int32_t* tokens, std::int32_t* targets, std::int32_t* positions) const;
  /// Bytes of text that the targets of sequences [begin, end) stand for.
  std::int64_t target_bytes(std::int64_t begin, std::int64_t end) const;

 private:
  std::size_t file_of(std::int64_t w) const;
  std::int64_t begin_of(std::size_t file) const { return file == 0 ? 0 : ends_[file - 1]; }

  std::vector<TokenFile> files_;
  std::vector<std::int64_t> ends_;  ///< by file: the number of sequences up to its end
  std::int64_t seq_;
  Positions positions_;
};

}  // namespace weft::data
