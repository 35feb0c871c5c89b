// Cuts token files into windows, that is samples of a fixed length.
#pragma once

#include <cstdint>
#include <vector>

#include "data/token_file.hpp"

namespace weft::data {

/// How the tokens of a window are numbered.
enum class Positions {
  of_window,   ///< 0..seq-1
  of_document  ///< beginning again with 0 behind each end-of-document token
};

/// A file of N tokens holds (N - 1) / seq windows; window w of it is tokens [w*seq, w*seq + seq], its inputs
/// the first seq of them, its targets the last seq. Windows of several files are numbered through, in the
/// files' order. Windows may span documents, not files; their targets are all learnt.
class Windows {
 public:
  /// Throws Error(bad_input) when a file has no whole window, is of another tokenizer than the first, or has
  /// no end-of-document token where positions need it.
  Windows(std::vector<TokenFile> files, std::int64_t seq, Positions positions = Positions::of_window);

  const std::vector<TokenFile>& files() const { return files_; }
  std::int64_t count() const { return ends_.back(); }
  std::int64_t seq() const { return seq_; }
  /// Copies window w: seq tokens, their targets and positions.
  void copy(std::int64_t w, std::int32_t* tokens, std::int32_t* targets, std::int32_t* positions) const;
  /// How many bytes of text the targets of windows [begin, end) stand for.
  std::int64_t target_bytes(std::int64_t begin, std::int64_t end) const;

 private:
  std::size_t file_of(std::int64_t w) const;
  std::int64_t begin_of(std::size_t file) const { return file == 0 ? 0 : ends_[file - 1]; }

  std::vector<TokenFile> files_;
  std::vector<std::int64_t> ends_;  ///< the number of windows up to the end of each file
  std::int64_t seq_;
  Positions positions_;
};

}  // namespace weft::data
