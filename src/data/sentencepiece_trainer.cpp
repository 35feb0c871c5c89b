// Trains SentencePiece models (declared in sentencepiece_tokenizer.hpp).
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "data/sentencepiece_tokenizer.hpp"
#include "data/text_runs.hpp"

namespace weft::data {
namespace {

/// The library's own, or Abseil's where the library is built with that.
using Status = decltype(std::declval<const sentencepiece::SentenceIterator&>().status());

/// Hands the library one line after the other, without the newline, which is a piece of its own. Text that
/// the library could not keep apart from other text (text_runs.hpp) ends a line, too. Long lines are cut,
/// because the library would skip them.
class SampledLines final : public sentencepiece::SentenceIterator {
 public:
  SampledLines(const TextInputs& text, const SentencePieceOptions& options, double share)
      : reader_(text), options_(options), share_(share) {
    Next();
  }
  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  Status status() const override { return {}; }
  void Next() override;

 private:
  bool more_text();

  DocumentReader reader_;
  const SentencePieceOptions& options_;
  double share_;
  RandomStream random_{0, "data.tokenizer"};
  std::uint64_t lines_ = 0;
  TextPiece piece_;
  std::string_view rest_;
  std::string line_;
  bool done_ = false;
};

void SampledLines::Next() {
  constexpr std::size_t longest = 4096;
  while (!rest_.empty() || more_text()) {
    std::string_view run = rest_;
    const TextRun next = next_run(rest_);
    if (next.kind != RunKind::text) continue;
    const std::size_t cut = utf8_cut(next.bytes, longest);
    run.remove_prefix(cut);
    rest_ = run;
    if (share_ < 1.0 && random_.uniform(lines_++) >= share_) continue;
    line_.assign(next.bytes.substr(0, cut));
    return;
  }
  done_ = true;
}

bool SampledLines::more_text() {
  while (reader_.next(piece_)) {
    if (piece_.text.empty() || (options_.uses && !options_.uses(piece_.document))) continue;
    rest_ = piece_.text;
    return true;
  }
  return false;
}

std::int64_t count_bytes(const TextInputs& text, const SentencePieceOptions& options) {
  DocumentReader reader(text);
  std::int64_t bytes = 0;
  for (TextPiece piece; reader.next(piece);)
    if (!options.uses || options.uses(piece.document)) bytes += static_cast<std::int64_t>(piece.text.size());
  return bytes;
}

}  // namespace

std::string train_sentencepiece(const TextInputs& text, const SentencePieceOptions& options) {
  constexpr std::int64_t fewest = 3 + 256;  // unknown, end of document, newline, and 256 bytes
  WEFT_VALIDATE(options.vocab > fewest,
                "a SentencePiece vocabulary of {} is too small (bytes and controls take {}); ask for more, "
                "or for \"byte\"",
                options.vocab, fewest);
  WEFT_VALIDATE(options.type == "bpe" || options.type == "unigram",
                "no SentencePiece model of type \"{}\"; choose bpe or unigram", options.type);
  for (const std::string& file : text.files)
    WEFT_VALIDATE(
        file != "-",
        "cannot train a tokenizer on standard input (the text is read more than once); give a file");
  const std::int64_t bytes = count_bytes(text, options);
  WEFT_VALIDATE(bytes > 0, "cannot train a tokenizer (there is no text in the inputs)");
  SampledLines lines(text, options, static_cast<double>(options.sample_bytes) / static_cast<double>(bytes));
  const std::unordered_map<std::string, std::string> settings{
      {"vocab_size", fmt::format("{}", options.vocab)},
      {"model_type", options.type},
      {"num_threads", fmt::format("{}", options.threads)},
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"split_digits", "true"},
      {"user_defined_symbols", "\n"},
      {"unk_id", "0"},
      {"eos_id", "1"},
      {"bos_id", "-1"},
      {"pad_id", "-1"},
      {"input_sentence_size", "0"},
      {"shuffle_input_sentence", "false"},
      {"minloglevel", "2"},
  };
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &lines, &model);
  if (!status.ok()) {
    std::string reason(status.message());
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    WEFT_VALIDATE(false,
                  "cannot train a tokenizer with {} pieces on {} bytes of text ({}); ask for fewer pieces or "
                  "give more text",
                  options.vocab, bytes, reason);
  }
  return model;
}

}  // namespace weft::data
