#include "data/split_writer.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "data/file_reader.hpp"
#include "data/token_format.hpp"

namespace weft::data {
namespace {

/// A token file can be made again from its input, and may be replaced. Anything else may be the only copy.
void refuse_to_replace(const std::string& path) {
  const auto begins = beginning_of(path, token_magic.size());
  WEFT_VALIDATE(!begins || std::equal(begins->begin(), begins->end(), token_magic.begin(), token_magic.end()),
                "{} is there, and is no token file (--train and --valid replace what they name); choose "
                "another name, or add --force",
                path);
}

SplitReport report_of(const std::string& path, const TokenFileWriter& writer) {
  return {path, writer.documents(), writer.tokens(), writer.text_bytes()};
}

}  // namespace

std::string to_text(const SplitReport& train, const SplitReport& valid) {
  std::string text;
  for (const SplitReport* split : {&train, &valid}) {
    if (split->path.empty()) continue;
    text += fmt::format("{}  {}: {} documents, {} tokens, {} bytes of text, {:.3f} bytes/token\n",
                        split == &train ? "training  " : "validation", split->path, split->documents,
                        split->tokens, split->text_bytes,
                        static_cast<double>(split->text_bytes) / static_cast<double>(split->tokens));
  }
  return text;
}

Split::Split(const SplitOptions& options)
    : random_(options.seed, "data.split"), fraction_(options.valid.empty() ? 0.0 : options.valid_fraction) {}

bool Split::is_valid(std::int64_t document) const {
  return random_.uniform(static_cast<std::uint64_t>(document)) < fraction_;
}

void check_split(const SplitOptions& options, std::vector<NamedFile> also_written,
                 const std::vector<NamedFile>& read) {
  WEFT_VALIDATE(!options.train.empty(), "no token file to write is named; name the training file");
  WEFT_VALIDATE(options.valid.empty() || (options.valid_fraction > 0 && options.valid_fraction < 1),
                "the validation fraction {} is out of range (0 to 1, both excluded)", options.valid_fraction);
  std::vector<NamedFile> written;
  for (const auto& [what, path] :
       {NamedFile{"the training file", options.train}, NamedFile{"the validation file", options.valid}}) {
    if (path.empty()) continue;
    written.push_back({what, path});
    for (const std::string& name : TokenFileWriter::temporary_names(path))
      written.push_back({what + "'s temporary", name});
  }
  written.insert(written.end(), also_written.begin(), also_written.end());
  refuse_same_files(written, read);
  for (const std::string& path : {options.train, options.valid})
    if (!options.force) refuse_to_replace(path);
}

SplitWriter::SplitWriter(const SplitOptions& options, const Tokenizer& tokenizer)
    : options_(options), split_(options), train_(options.train, tokenizer) {
  if (!options.valid.empty()) valid_.emplace(options.valid, tokenizer);
}

TokenFileWriter& SplitWriter::file_of(std::int64_t document) {
  return split_.is_valid(document) ? *valid_ : train_;
}

void SplitWriter::check_documents(const std::string& why, const std::string& remedy) const {
  if (!valid_) return;
  WEFT_VALIDATE(train_.documents() > 0 && valid_->documents() > 0,
                "{} documents fell to training and {} to validation (the validation fraction is {}{}); {} or "
                "change the fraction",
                train_.documents(), valid_->documents(), options_.valid_fraction, why, remedy);
}

void SplitWriter::complete() {
  train_.complete();
  if (valid_) valid_->complete();
}

void SplitWriter::publish() {
  train_.publish();
  if (valid_) valid_->publish();
}

SplitReport SplitWriter::train() const {
  return report_of(options_.train, train_);
}

SplitReport SplitWriter::valid() const {
  return valid_ ? report_of(options_.valid, *valid_) : SplitReport{};
}

}  // namespace weft::data
