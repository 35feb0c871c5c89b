// Reads text from files, gzip files (.gz, .dz) or standard input, cuts it into documents, and streams them in
// bounded pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::data {

struct TextInputs {
  /// Paths of the inputs, or "-" for standard input. Compression is recognised by content. A name that ends
  /// in .jsonl (before .gz) stands for one JSON object a line, whose "text" is a document; the separator does
  /// not apply to it.
  std::vector<std::string> files;
  /// What stands between two documents, and is dropped: "blank-line", "file" (each file is a document), or
  /// any other string, with the escapes \n \r \t \\. The end of a file always ends a document.
  std::string separator = "blank-line";
};

/// Where to cut a text of a megabyte or more that goes on; 0: read more of it first. Tokenizer::last_cut() is
/// one, and line_cut().
using FindCut = std::function<std::size_t(std::string_view)>;

/// A piece of a document: all of it or, when it is long, about a megabyte, cut where FindCut says.
struct TextPiece {
  std::string_view text;      ///< valid until the next call of next(); empty only where ends_document is set
  std::int64_t document = 0;  ///< number of the document, counted from zero over all inputs
  bool ends_document = false;
};

/// Reads documents in order. Empty documents are dropped, and get no number. Throws Error(bad_input) for what
/// is not there, for damaged gzip data, for what follows gzip data and is not gzip (zeros at the end of a
/// file are allowed), and for lines that are not as promised; Error(environment) when storage cannot be read.
class DocumentReader {
 public:
  /// Without `find_cut`, pieces end at the end of a line if there is one.
  explicit DocumentReader(TextInputs inputs, FindCut find_cut = {});
  ~DocumentReader();
  bool next(TextPiece& piece);
  /// Whether the separator stood in what was read so far; true, too, when it applied to no text of that.
  bool separator_found() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::data
