// Turns tokens of other codes into token files, for `weft data import`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/split_writer.hpp"

namespace weft::data {

struct ImportOptions : SplitOptions {
  std::vector<std::string> files;  ///< what open_foreign_tokens() opens, in this order
  int raw_bytes = 0;               ///< 2 or 4: the files are nothing but tokens of that many bytes
  std::string tokenizer;           ///< the one that made the tokens, as open_tokenizer() takes it
  std::string end_of_document;  ///< the token of a tokenizer.json that ends documents; empty: the file tells
};

struct ImportedFile {
  std::string path, format;
  std::int64_t tokens = 0;
};

struct ImportReport {
  std::vector<ImportedFile> files;
  std::string tokenizer;
  std::int64_t vocab = 0;
  SplitReport train;
  SplitReport valid;  ///< its path is empty when there is no such file
  std::int32_t end_of_document = -1;
  /// Whether no file says where documents end, and none has a token for it, so that all is one document.
  bool never_ends = false;
  /// The beginning of the first document as text: what cannot be read was not made by this tokenizer.
  std::string first_text;
};

/// Writes the token files. A document ends at the tokenizer's end-of-document token, before its
/// beginning-of-document token, and where a file says so; with the last file the last document ends. Each
/// document that has other tokens gets these two tokens around it, as prepare() would have written it; one
/// that has none is dropped. Memory does not grow with the files. Throws Error(bad_input) for what
/// open_foreign_tokens(), open_tokenizer() or check_split() refuse, for a token that the tokenizer does not
/// have, and for a split without documents; Error(environment) for a full disk. Then no file appears.
ImportReport import_tokens(const ImportOptions& options);

/// The report in a few lines for a terminal.
std::string to_text(const ImportReport& report);

}  // namespace weft::data
