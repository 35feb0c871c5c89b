// SentencePiece models (Kudo & Richardson, 2018) as tokenizers that lose nothing, and their training.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "data/text_reader.hpp"
#include "data/tokenizer.hpp"

namespace weft::data {

/// Makes a tokenizer of the bytes of a model. Throws Error(bad_input), which calls it `name`, when it is no
/// model, has no end-of-sentence piece, or loses text: a model must have byte fallback and identity
/// normalisation, add no dummy prefix and remove no white space.
std::unique_ptr<Tokenizer> sentencepiece_of(std::string_view model, const std::string& name);

struct SentencePieceOptions {
  std::int64_t vocab = 8192;  ///< number of pieces, with end of document, newline and 256 bytes
  std::string type = "bpe";   ///< "bpe" or "unigram"
  /// About how much text the model is trained on; its lines are drawn by a hash of their number.
  std::int64_t sample_bytes = std::int64_t{8} << 20;
  int threads = 2;
  std::function<bool(std::int64_t document)> uses;  ///< documents to learn from; empty: all
};

/// Trains a lossless model on the documents of `text`, and returns the bytes of its file. The same text and
/// options give the same bytes. Throws Error(bad_input) when the text cannot be read, is read from "-" (two
/// passes are needed), or is too little for the vocabulary.
std::string train_sentencepiece(const TextInputs& text, const SentencePieceOptions& options);

}  // namespace weft::data
