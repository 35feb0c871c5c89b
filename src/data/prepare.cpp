#include "data/prepare.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "data/same_files.hpp"
#include "data/token_file_writer.hpp"
#include "data/token_format.hpp"
#include "data/tokenizer.hpp"
#include "io/atomic_file.hpp"

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

bool learns_tokenizer(const PrepareOptions& options) {
  return options.tokenizer == "sentencepiece";
}

std::string model_path(const PrepareOptions& options) {
  if (options.tokenizer == "byte") return "";
  if (!learns_tokenizer(options)) return options.tokenizer;
  return options.model.empty() ? std::filesystem::path(options.train).replace_extension(".model").string()
                               : options.model;
}

/// Every name that is written, temporary ones included, must lead to a file of its own.
void check_names(const PrepareOptions& options, const std::string& model) {
  std::vector<NamedFile> written, read;
  const auto write = [&](const std::string& what, const std::string& path,
                         const std::vector<std::string>& temporary_names) {
    if (path.empty()) return;
    written.push_back({what, path});
    for (const std::string& name : temporary_names) written.push_back({what + "'s temporary", name});
  };
  write("the training file", options.train, TokenFileWriter::temporary_names(options.train));
  write("the validation file", options.valid, TokenFileWriter::temporary_names(options.valid));
  if (learns_tokenizer(options))
    write("the learnt model", model, {model + ".tmp"});
  else if (!model.empty())
    read.push_back({"the tokenizer model", model});
  for (const std::string& path : options.text.files)
    read.push_back({"the text", path == "-" ? "/dev/stdin" : path});
  refuse_same_files(written, read);
}

/// The first bytes of the file that would be replaced, `most` at most; nothing where there is no regular
/// file, or an empty one.
std::optional<std::string> beginning_of(const std::string& path, std::size_t most) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none) || std::filesystem::file_size(path, none) == 0)
    return std::nullopt;
  std::string bytes(most, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(most));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

/// A token file can be made again from its text, and may be replaced. Anything else may be the only copy.
void refuse_to_replace(const std::string& path) {
  const auto begins = beginning_of(path, token_magic.size());
  WEFT_VALIDATE(!begins || std::equal(begins->begin(), begins->end(), token_magic.begin(), token_magic.end()),
                "{} is there, and is no token file (--train and --valid replace what they name); choose "
                "another name, or add --force",
                path);
}

/// Token files and checkpoints may depend on a tokenizer, and say what they say by it alone.
void refuse_to_replace_by(const std::string& learnt, const std::string& path) {
  const auto stands = beginning_of(path, learnt.size() + 1);
  WEFT_VALIDATE(!stands || *stands == learnt,
                "{} is there, and is another tokenizer than the one learnt here (token files and checkpoints "
                "may need it); name another file by --model, or add --force",
                path);
}

void check(const PrepareOptions& options, const std::string& model) {
  WEFT_VALIDATE(
      options.end_of_document.empty() || !learns_tokenizer(options),
      "--end-of-document has no effect (a SentencePiece model that is learnt here ends documents by token "
      "1); leave it out");
  WEFT_VALIDATE(!options.train.empty(), "no token file to write is named; name the training file");
  WEFT_VALIDATE(options.valid.empty() || (options.valid_fraction > 0 && options.valid_fraction < 1),
                "the validation fraction {} is out of range (0 to 1, both excluded)", options.valid_fraction);
  check_names(options, model);
  for (const std::string& path : {options.train, options.valid})
    if (!options.force) refuse_to_replace(path);
}

/// Learns a SentencePiece model from the documents for training, and gives its bytes to `model`, which stands
/// for the file at `path` and is not committed.
std::unique_ptr<Tokenizer> learn_tokenizer(const PrepareOptions& options, const Split& split,
                                           const std::string& path, io::AtomicFile& model) {
  SentencePieceOptions training = options.training;
  training.uses = [&](std::int64_t document) { return !split.is_valid(document); };
  const std::string bytes = train_sentencepiece(options.text, training);
  if (!options.force) refuse_to_replace_by(bytes, path);
  model.append(bytes.data(), bytes.size());
  return sentencepiece_of(bytes, path);
}

/// A text may spell such a token where the tokenizer finds its added tokens in text.
void refuse_around_documents(const std::vector<std::int32_t>& ids, const Tokenizer& tokenizer,
                             std::int64_t document) {
  for (const std::int32_t around : {tokenizer.begin_of_document(), tokenizer.end_of_document()})
    WEFT_VALIDATE(
        around < 0 || std::find(ids.begin(), ids.end(), around) == ids.end(),
        "document {} (counted from 0) spells token {}, which only stands around documents; name it by "
        "--separator if it ends documents here, or take it out of the text",
        document, around);
}

/// Gives the tokens of each document to the writer of its split. Returns the bytes of all text.
std::int64_t write_documents(DocumentReader& reader, const Split& split, const Tokenizer& tokenizer,
                             TokenFileWriter& train, TokenFileWriter* valid) {
  std::vector<std::int32_t> ids;
  std::int64_t bytes = 0;
  bool begins_document = true;
  for (TextPiece piece; reader.next(piece);) {
    ids.clear();
    tokenizer.encode_append(piece.text, ids);
    refuse_around_documents(ids, tokenizer, piece.document);
    if (begins_document && tokenizer.begin_of_document() >= 0)
      ids.insert(ids.begin(), tokenizer.begin_of_document());
    begins_document = piece.ends_document;
    if (piece.ends_document) ids.push_back(tokenizer.end_of_document());
    TokenFileWriter& out = split.is_valid(piece.document) ? *valid : train;
    out.append(ids);
    if (piece.ends_document) out.end_document();
    bytes += static_cast<std::int64_t>(piece.text.size());
  }
  return bytes;
}

SplitReport report_of(const std::string& path, const TokenFileWriter& writer) {
  return {path, writer.documents(), writer.tokens(), writer.text_bytes()};
}

/// Whether all text is in the files, and each of them has some.
void check_written(const PrepareOptions& options, const PrepareReport& report, const Tokenizer& tokenizer) {
  WEFT_VALIDATE(report.text_bytes > 0,
                "there is no text in the inputs (all documents are empty); give more text");
  WEFT_VALIDATE(
      report.train.documents > 0 && (options.valid.empty() || report.valid.documents > 0),
      "{} documents fell to training and {} to validation (the validation fraction is {}{}); cut the text "
      "into more documents or change the fraction",
      report.train.documents, report.valid.documents, options.valid_fraction,
      report.separator_found ? "" : ", and the separator stands in none of the texts");
  const std::int64_t kept = report.train.text_bytes + report.valid.text_bytes;
  WEFT_VALIDATE(kept == report.text_bytes || tokenizer.normalizes(),
                "the tokenizer {} kept {} of {} bytes of text (it cannot spell them all); use one that falls "
                "back to bytes",
                options.tokenizer, kept, report.text_bytes);
}

}  // namespace

PrepareReport prepare(const PrepareOptions& options) {
  PrepareReport report;
  report.model = model_path(options);
  check(options, report.model);
  const Split split(options);
  std::optional<io::AtomicFile> model;
  if (learns_tokenizer(options)) model.emplace(report.model, io::Named::by_user);
  const auto tokenizer = model ? learn_tokenizer(options, split, report.model, *model)
                               : open_tokenizer(options.tokenizer, options.end_of_document);
  report.vocab = tokenizer->vocab();

  TokenFileWriter train(options.train, *tokenizer);
  std::optional<TokenFileWriter> valid;
  if (!options.valid.empty()) valid.emplace(options.valid, *tokenizer);
  DocumentReader reader(options.text, [&](std::string_view text) { return tokenizer->last_cut(text); });
  report.text_bytes = write_documents(reader, split, *tokenizer, train, valid ? &*valid : nullptr);
  report.separator_found = reader.separator_found();
  report.train = report_of(options.train, train);
  if (valid) report.valid = report_of(options.valid, *valid);
  check_written(options, report, *tokenizer);

  // All of them are on storage before the first has its name (commit() syncs the model before it renames it).
  // The model comes first, so that no token file stands there without the model that wrote it.
  train.complete();
  if (valid) valid->complete();
  if (model) model->commit();
  train.publish();
  if (valid) valid->publish();
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
  const std::int64_t kept = report.train.text_bytes + report.valid.text_bytes;
  if (kept != report.text_bytes)
    text += fmt::format("normalized  {} bytes of text became {} (the tokenizer's NFC)\n", report.text_bytes,
                        kept);
  return text;
}

}  // namespace weft::data
