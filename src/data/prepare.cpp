#include "data/prepare.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "data/file_reader.hpp"
#include "data/tokenizer.hpp"
#include "io/atomic_file.hpp"

namespace weft::data {
namespace {

bool learns_tokenizer(const PrepareOptions& options) {
  return options.tokenizer == "sentencepiece";
}

std::string model_path(const PrepareOptions& options) {
  if (options.tokenizer == "byte") return "";
  if (!learns_tokenizer(options)) return options.tokenizer;
  return options.model.empty() ? std::filesystem::path(options.train).replace_extension(".model").string()
                               : options.model;
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
  std::vector<NamedFile> written, read;
  if (learns_tokenizer(options))
    written = {{"the learnt model", model}, {"the learnt model's temporary", model + ".tmp"}};
  else if (!model.empty())
    read.push_back({"the tokenizer model", model});
  for (const std::string& path : options.text.files)
    read.push_back({"the text", path == "-" ? "/dev/stdin" : path});
  check_split(options, std::move(written), read);
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
std::int64_t write_documents(DocumentReader& reader, const Tokenizer& tokenizer, SplitWriter& writer) {
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
    TokenFileWriter& out = writer.file_of(piece.document);
    out.append(ids);
    if (piece.ends_document) out.end_document();
    bytes += static_cast<std::int64_t>(piece.text.size());
  }
  return bytes;
}

/// Whether all text is in the files, and each of them has some.
void check_written(const PrepareOptions& options, const PrepareReport& report, const Tokenizer& tokenizer,
                   const SplitWriter& writer) {
  WEFT_VALIDATE(report.text_bytes > 0,
                "there is no text in the inputs (all documents are empty); give more text");
  writer.check_documents(report.separator_found ? "" : ", and the separator stands in none of the texts",
                         "cut the text into more documents");
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
  std::optional<io::AtomicFile> model;
  if (learns_tokenizer(options)) model.emplace(report.model, io::Named::by_user);
  const auto tokenizer = model ? learn_tokenizer(options, Split(options), report.model, *model)
                               : open_tokenizer(options.tokenizer, options.end_of_document);
  report.vocab = tokenizer->vocab();

  SplitWriter writer(options, *tokenizer);
  DocumentReader reader(options.text, [&](std::string_view text) { return tokenizer->last_cut(text); });
  report.text_bytes = write_documents(reader, *tokenizer, writer);
  report.separator_found = reader.separator_found();
  report.train = writer.train();
  report.valid = writer.valid();
  check_written(options, report, *tokenizer, writer);

  // All of them are on storage before the first has its name (commit() syncs the model before it renames it).
  // The model comes first, so that no token file stands there without the model that wrote it.
  writer.complete();
  if (model) model->commit();
  writer.publish();
  return report;
}

std::string to_text(const PrepareReport& report) {
  std::string text =
      fmt::format("tokenizer   {} ({} ids)\n", report.model.empty() ? "byte" : report.model, report.vocab);
  text += to_text(report.train, report.valid);
  const std::int64_t kept = report.train.text_bytes + report.valid.text_bytes;
  if (kept != report.text_bytes)
    text += fmt::format("normalized  {} bytes of text became {} (the tokenizer's NFC)\n", report.text_bytes,
                        kept);
  return text;
}

}  // namespace weft::data
