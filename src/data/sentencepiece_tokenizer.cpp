#include "data/sentencepiece_tokenizer.hpp"

#include <sentencepiece_processor.h>

#include <array>
#include <cmath>
#include <mutex>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "data/text_runs.hpp"
#include "data/word_cache.hpp"

namespace weft::data {
namespace {

constexpr std::string_view space_mark = "\xe2\x96\x81";

/// A piece as text, with spaces where SentencePiece writes U+2581.
std::string unescape(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const bool space = piece.starts_with(space_mark);
    text += space ? ' ' : piece[0];
    piece.remove_prefix(space ? space_mark.size() : 1);
  }
  return text;
}

/// Whether a space follows something else inside of a piece, so that the piece spans two words.
bool spans_words(std::string_view text) {
  for (std::size_t i = 1; i < text.size(); ++i)
    if (text[i] == ' ' && text[i - 1] != ' ') return true;
  return false;
}

/// A tokenizer that loses nothing. The library replaces what is not UTF-8 by U+FFFD, and cannot tell U+2581
/// from a space. Such bytes, and newlines, go around it, as byte pieces. Words are kept with their ids,
/// because in natural text nearly all words come again.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string_view model, const std::string& path);

  void encode_append(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string_view text_of(std::int32_t id) const override { return texts_[static_cast<std::size_t>(id)]; }
  std::int64_t vocab() const override { return static_cast<std::int64_t>(texts_.size()); }
  std::int32_t end_of_document() const override { return model_.eos_id(); }
  TokenizerKind kind() const override { return TokenizerKind::sentencepiece; }
  std::uint64_t hash() const override { return hash_; }

 private:
  void read_pieces(const std::string& path);
  void check_lossless(const std::string& path) const;
  void encode_words(std::string_view run, std::vector<std::int32_t>& ids) const;
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const;
  void encode_with_library(std::string_view text, std::vector<std::int32_t>& ids) const;

  sentencepiece::SentencePieceProcessor model_;
  std::uint64_t hash_ = 0;
  std::vector<std::string> texts_;            ///< bytes of each id
  std::array<std::int32_t, 256> byte_ids_{};  ///< the byte piece of each byte
  std::int32_t newline_ = -1;
  /// Whether words can be encoded one by one: in a BPE model where no piece spans two words. (The sums of
  /// scores of a unigram model round differently for a word alone, which would break near ties in another way
  /// than the library does.)
  bool words_are_separate_ = true;

  mutable std::mutex mutex_;  ///< guards what follows
  mutable WordCache words_;
  mutable std::vector<int> scratch_;
};

SentencePieceTokenizer::SentencePieceTokenizer(std::string_view model, const std::string& path)
    : hash_(hash_text(model)) {
  const auto status = model_.LoadFromSerializedProto(model);
  WEFT_VALIDATE(status.ok() && model_.GetPieceSize() > 0,
                "{} is not a SentencePiece model (it cannot be parsed); give the .model file", path);
  read_pieces(path);
  check_lossless(path);
}

void SentencePieceTokenizer::read_pieces(const std::string& path) {
  byte_ids_.fill(-1);
  const int pieces = model_.GetPieceSize();
  texts_.resize(static_cast<std::size_t>(pieces));
  for (int id = 0; id < pieces; ++id) {
    std::string& text = texts_[static_cast<std::size_t>(id)];
    const std::string& piece = model_.IdToPiece(id);
    if (model_.IsByte(id)) {  // a byte piece is written like "<0x0A>"
      const auto byte = static_cast<unsigned char>(std::stoi(piece.substr(3, 2), nullptr, 16));
      text.assign(1, static_cast<char>(byte));
      byte_ids_[byte] = id;
    } else if (!model_.IsControl(id) && !model_.IsUnknown(id)) {
      text = unescape(piece);
      if (text == "\n") newline_ = id;
      const float score = model_.GetScore(id);  // in a BPE model, minus the number of the merge, an integer
      words_are_separate_ = words_are_separate_ && score == std::trunc(score) && !spans_words(text);
    }
  }
  for (const std::int32_t id : byte_ids_)
    WEFT_VALIDATE(
        id >= 0, "the tokenizer {} loses text (it has no byte fallback); train one with `weft data tokenize`",
        path);
  WEFT_VALIDATE(model_.eos_id() >= 0,
                "the tokenizer {} has no end-of-sentence piece (it ends documents); train one with `weft "
                "data tokenize`",
                path);
  if (newline_ < 0) newline_ = byte_ids_['\n'];
}

void SentencePieceTokenizer::check_lossless(const std::string& path) const {
  // The probes have white space in all places, and characters that the usual normalisations rewrite (full
  // width, ligature, accent).
  for (const std::string_view probe :
       {"a", " a", "  a  b ", "\ta\t", "\xef\xbc\xa1\xef\xac\x81 e\xcc\x81 \xc3\xa9 \xc2\xa0 \xc2\xb2",
        "Aa"}) {
    std::vector<std::int32_t> ids;
    encode_with_library(probe, ids);
    WEFT_VALIDATE(decode(ids) == probe,
                  "the tokenizer {} loses text (it normalises or adds white space); train one with `weft "
                  "data tokenize`",
                  path);
  }
}

void SentencePieceTokenizer::encode_append(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::lock_guard lock(mutex_);
  while (!text.empty()) {
    const TextRun run = next_run(text);
    switch (run.kind) {
      case RunKind::newline: ids.push_back(newline_); break;
      case RunKind::raw:
        for (const char c : run.bytes) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
        break;
      case RunKind::text:
        words_are_separate_ ? encode_words(run.bytes, ids) : encode_with_library(run.bytes, ids);
        break;
    }
  }
}

/// Encodes a run word by word. A word is its leading spaces and what follows up to the next space.
void SentencePieceTokenizer::encode_words(std::string_view run, std::vector<std::int32_t>& ids) const {
  while (!run.empty()) {
    const std::size_t letters = std::min(run.find_first_not_of(' '), run.size());
    const std::size_t end = std::min(run.find(' ', letters), run.size());
    encode_word(run.substr(0, end), ids);
    run.remove_prefix(end);
  }
}

void SentencePieceTokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (words_.append(word, ids)) return;
  const std::size_t before = ids.size();
  encode_with_library(word, ids);
  words_.keep(word, std::span(ids).subspan(before));
}

void SentencePieceTokenizer::encode_with_library(std::string_view text,
                                                 std::vector<std::int32_t>& ids) const {
  const auto status = model_.Encode(text, &scratch_);
  if (!status.ok())
    throw Error(
        ExitCode::bad_input,
        fmt::format("SentencePiece cannot encode the text ({}); look at the text, or use another model",
                    std::string_view(status.message())));
  ids.insert(ids.end(), scratch_.begin(), scratch_.end());
}

}  // namespace

std::unique_ptr<Tokenizer> sentencepiece_of(std::string_view model, const std::string& name) {
  return std::make_unique<SentencePieceTokenizer>(model, name);
}

}  // namespace weft::data
