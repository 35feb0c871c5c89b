#include "data/prepare.hpp"

#include <filesystem>
#include <optional>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "data/token_file_writer.hpp"
#include "data/tokenizer.hpp"

namespace weft::data {
namespace {

/// Decides which documents are held out for validation.
class Split {
 public:
  explicit Split(const PrepareOptions& options)
      : random_(options.seed, "data.split"),
        fraction_(options.valid.empty() ? 0.0 : options.valid_fraction) {}
  bool is_valid(std::int64_t document) const {
    return random_.uniform(static_cast<std::uint64_t>(document)) < fraction_;
  }

 private:
  RandomStream random_;
  double fraction_;
};

void check(const PrepareOptions& options) {
  WEFT_VALIDATE(!options.train.empty(), "no token file to write is named; name the training file");
  WEFT_VALIDATE(options.train != options.valid,
                "training and validation would both be written to {}; name two files", options.train);
  WEFT_VALIDATE(options.valid.empty() || (options.valid_fraction > 0 && options.valid_fraction < 1),
                "the validation fraction {} is out of range (0 to 1, both excluded)", options.valid_fraction);
}

std::string model_path(const PrepareOptions& options) {
  if (options.tokenizer == "byte") return "";
  if (options.tokenizer != "sentencepiece") return options.tokenizer;
  return options.model.empty() ? std::filesystem::path(options.train).replace_extension(".model").string()
                               : options.model;
}

SplitReport report_of(const std::string& path, const TokenFileWriter& writer) {
  return {path, writer.documents(), writer.tokens(), writer.text_bytes()};
}

}  // namespace

PrepareReport prepare(const PrepareOptions& options) {
  check(options);
  const Split split(options);
  PrepareReport report;
  report.model = model_path(options);
  if (options.tokenizer == "sentencepiece") {
    SentencePieceOptions training = options.training;
    training.uses = [&](std::int64_t document) { return !split.is_valid(document); };
    train_sentencepiece(options.text, training, report.model);
  }
  const auto tokenizer = open_tokenizer(report.model.empty() ? "byte" : report.model);
  report.vocab = tokenizer->vocab();

  TokenFileWriter train(options.train, *tokenizer);
  std::optional<TokenFileWriter> valid;
  if (!options.valid.empty()) valid.emplace(options.valid, *tokenizer);
  DocumentReader reader(options.text);
  std::vector<std::int32_t> ids;
  std::int64_t bytes = 0;
  for (TextPiece piece; reader.next(piece);) {
    ids.clear();
    tokenizer->encode_append(piece.text, ids);
    if (piece.ends_document) ids.push_back(tokenizer->end_of_document());
    TokenFileWriter& out = split.is_valid(piece.document) ? *valid : train;
    out.append(ids);
    if (piece.ends_document) out.end_document();
    bytes += static_cast<std::int64_t>(piece.text.size());
  }
  WEFT_VALIDATE(bytes > 0, "there is no text in the inputs (all documents are empty); give more text");
  WEFT_VALIDATE(
      train.documents() > 0 && (!valid || valid->documents() > 0),
      "{} documents fell to training and {} to validation (the validation fraction is {}); cut the text "
      "into more documents or change the fraction",
      train.documents(), valid ? valid->documents() : 0, options.valid_fraction);
  report.train = report_of(options.train, train);
  if (valid) report.valid = report_of(options.valid, *valid);
  const std::int64_t kept = report.train.text_bytes + report.valid.text_bytes;
  if (kept != bytes)
    throw Error(ExitCode::bad_input, fmt::format("the tokenizer {} kept {} of {} bytes of text (it cannot "
                                                 "spell them all); use one that falls back to bytes",
                                                 options.tokenizer, kept, bytes));
  train.finish();
  if (valid) valid->finish();
  return report;
}

std::string to_text(const PrepareReport& report) {
  std::string text =
      fmt::format("tokenizer   {} ({} ids)\n", report.model.empty() ? "byte" : report.model, report.vocab);
  for (const SplitReport* split : {&report.train, &report.valid}) {
    if (split->path.empty()) continue;
    text += fmt::format("{}  {}: {} documents, {} tokens, {} bytes of text, {:.3f} bytes/token\n",
                        split == &report.train ? "training  " : "validation", split->path, split->documents,
                        split->tokens, split->text_bytes,
                        static_cast<double>(split->text_bytes) / static_cast<double>(split->tokens));
  }
  return text;
}

}  // namespace weft::data
