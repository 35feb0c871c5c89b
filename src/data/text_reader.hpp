// Text in: files, gzip files (.gz, .dz) or standard input, cut into documents, streamed in bounded pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::data {

struct TextInputs {
  /// Paths, or "-" for standard input. Compression is recognised by content. A name that ends in .jsonl
  /// (before .gz) holds one JSON object a line, whose "text" is a document; the separator does not apply to
  /// it.
  std::vector<std::string> files;
  /// What stands between two documents, and is dropped: "blank-line", "file" (a file is a document), or any
  /// other string, with the escapes \n \r \t \\. The end of a file always ends a document.
  std::string separator = "blank-line";
};

/// A piece of a document: all of it, or, where it is long, about a megabyte, cut at a line end if there is
/// one.
struct TextPiece {
  std::string_view text;      ///< valid until the next call of next(); empty only where ends_document is set
  std::int64_t document = 0;  ///< counted from zero over all inputs
  bool ends_document = false;
};

/// Reads documents in order. Empty documents are dropped and take no number.
/// Throws Error(bad_input) for what is not there, damaged gzip data, and lines that are not as promised,
/// Error(environment) when storage cannot be read.
class DocumentReader {
 public:
  explicit DocumentReader(TextInputs inputs);
  ~DocumentReader();
  bool next(TextPiece& piece);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::data
