#include "data/import.hpp"

#include <algorithm>
#include <set>
#include <span>

#include "base/check.hpp"
#include "base/quoted.hpp"
#include "data/foreign_tokens.hpp"
#include "data/tokenizer.hpp"

namespace weft::data {
namespace {

constexpr std::size_t shown_tokens = 16;

/// Cuts a stream of ids into documents, and gives them to the writer of their split.
class Importer {
 public:
  Importer(const Tokenizer& tokenizer, SplitWriter& writer) : tokenizer_(tokenizer), writer_(writer) {}

  /// Adds all tokens of a file.
  void add(ForeignTokens& file) {
    if (!file.index_path().empty()) end_document();  // what such a file has begins with a document
    std::vector<std::int32_t> run;
    for (std::vector<std::int64_t> ids; file.next(ids); run.clear()) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const std::int64_t id = ids[i];
        WEFT_VALIDATE(
            id >= 0 && id < tokenizer_.vocab(),
            "token {} of {} (counted from 0) is {}, which the tokenizer does not have ({} ids); name "
            "the tokenizer that made the file",
            file.position() - std::ssize(ids) + static_cast<std::int64_t>(i), file.path(), id,
            tokenizer_.vocab());
        if (id == tokenizer_.end_of_document() || id == tokenizer_.begin_of_document()) {
          append(run);
          end_document();
          run.clear();
          ends_ = true;
        } else {
          run.push_back(static_cast<std::int32_t>(id));
        }
      }
      append(run);
      if (file.ends_document()) {
        end_document();
        ends_ = true;
      }
    }
  }

  void end_document() {
    if (!inside_) return;
    const std::int32_t end = tokenizer_.end_of_document();
    TokenFileWriter& out = writer_.file_of(document_++);
    out.append({&end, 1});
    out.end_document();
    inside_ = false;
  }

  std::int64_t documents() const { return document_; }
  /// Whether anything has told where a document ends.
  bool ends() const { return ends_; }
  /// The first tokens of the first document.
  const std::vector<std::int32_t>& first() const { return first_; }

 private:
  void append(std::span<const std::int32_t> ids) {
    if (ids.empty()) return;
    TokenFileWriter& out = writer_.file_of(document_);
    const std::int32_t begin = tokenizer_.begin_of_document();
    if (!inside_ && begin >= 0) out.append({&begin, 1});
    inside_ = true;
    out.append(ids);
    if (document_ == 0) {
      const std::size_t more = std::min(ids.size(), shown_tokens - std::min(first_.size(), shown_tokens));
      first_.insert(first_.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(more));
    }
  }

  const Tokenizer& tokenizer_;
  SplitWriter& writer_;
  std::int64_t document_ = 0;
  bool inside_ = false;  ///< the document has tokens
  bool ends_ = false;
  std::vector<std::int32_t> first_;
};

/// Opens each file once, so that a mistake in the last one is told before the first is read. They are not
/// kept open: there may be more of them than a process may have.
std::vector<NamedFile> look_at(const ImportOptions& options) {
  std::vector<NamedFile> read;
  if (options.tokenizer != "byte") read.push_back({"the tokenizer", options.tokenizer});
  std::set<std::string> paths;
  for (const std::string& path : options.files) {
    const auto file = open_foreign_tokens(path, options.raw_bytes);
    WEFT_VALIDATE(
        paths.insert(file->path()).second,
        "the tokens of {} are named twice (of Megatron-LM's two files one is enough); name them once",
        file->path());
    read.push_back({"the file of tokens", file->path()});
    if (!file->index_path().empty()) read.push_back({"the index", file->index_path()});
  }
  return read;
}

/// The text on one line, without a character that is cut at its end; what is not UTF-8 has its bytes escaped.
std::string readable(const std::string& text) {
  std::string whole = text;
  for (int cut = 0; cut < 3 && !whole.empty() && !is_utf8(whole); ++cut) whole.pop_back();
  if (is_utf8(whole)) return one_line(whole);
  std::string escaped;
  for (const char c : text)
    escaped += static_cast<unsigned char>(c) < 0x80 ? std::string(1, c)
                                                    : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return one_line(escaped);
}

}  // namespace

ImportReport import_tokens(const ImportOptions& options) {
  const auto tokenizer = open_tokenizer(options.tokenizer, options.end_of_document);
  check_split(options, {}, look_at(options));
  ImportReport report;
  report.tokenizer = options.tokenizer;
  report.vocab = tokenizer->vocab();
  report.end_of_document = tokenizer->end_of_document();

  SplitWriter writer(options, *tokenizer);
  Importer importer(*tokenizer, writer);
  for (const std::string& path : options.files) {
    const auto file = open_foreign_tokens(path, options.raw_bytes);
    importer.add(*file);
    report.files.push_back({file->path(), std::string(file->format()), file->tokens()});
  }
  importer.end_document();
  WEFT_VALIDATE(importer.documents() > 0,
                "there are no tokens in the files but those that stand around documents; name other files");
  report.never_ends = !importer.ends();
  writer.check_documents(
      report.never_ends ? fmt::format(", and token {}, which ends documents, is in none of the files",
                                      report.end_of_document)
                        : "",
      report.never_ends ? "name the tokenizer that made them, or its token by --end-of-document,"
                        : "give files with more documents");
  report.train = writer.train();
  report.valid = writer.valid();
  report.first_text = tokenizer->decode(importer.first());
  writer.complete();
  writer.publish();
  return report;
}

std::string to_text(const ImportReport& report) {
  std::string text;
  for (const ImportedFile& file : report.files)
    text += fmt::format("read        {}: {} tokens, {}\n", file.path, file.tokens, file.format);
  text += fmt::format("tokenizer   {} ({} ids)\n", report.tokenizer, report.vocab);
  text += to_text(report.train, report.valid);
  text += fmt::format("begins      {}\n", readable(report.first_text));
  return text;
}

}  // namespace weft::data
