// Turns text into token files, for `weft data tokenize`.
#pragma once

#include <cstdint>
#include <string>

#include "data/sentencepiece_tokenizer.hpp"
#include "data/split_writer.hpp"
#include "data/text_reader.hpp"

namespace weft::data {

/// What to tokenize, by what, and where it goes. With `force`, a learnt model may also replace another one.
struct PrepareOptions : SplitOptions {
  TextInputs text;
  /// "byte", the path of a SentencePiece model or a tokenizer.json, or "sentencepiece": train one on the
  /// training documents.
  std::string tokenizer = "byte";
  std::string end_of_document;  ///< the token of a tokenizer.json that ends documents; empty: the file tells
  std::string model;  ///< where a trained model goes; empty: TRAIN's path with .model for its extension
  SentencePieceOptions training;  ///< settings for "sentencepiece"; prepare() sets `uses`
};

struct PrepareReport {
  SplitReport train;
  SplitReport valid;  ///< its path is empty when there is no such file
  std::string model;  ///< path of the tokenizer's file; empty for bytes
  std::int64_t vocab = 0;
  std::int64_t text_bytes = 0;  ///< of all documents, before a tokenizer normalizes them
  bool separator_found = true;  ///< what DocumentReader::separator_found() says after all text
};

/// Writes the token files; each document ends with the end-of-document token, and begins with the tokenizer's
/// beginning-of-document token if there is one. Streams: memory does not grow
/// with the text. Throws Error(bad_input) for unusable inputs or options, for a file that would overwrite an
/// input or another file of this call, for one that would replace a file that is neither empty nor a token
/// file, or a model of other content (unless `force`), for a split without documents, and for a document that
/// spells a token which only stands around documents; Error(environment)
/// for a full disk.
/// Then no file appears, a learnt model included, and what stood in their places stays.
PrepareReport prepare(const PrepareOptions& options);

/// The report in a few lines for a terminal.
std::string to_text(const PrepareReport& report);

}  // namespace weft::data
