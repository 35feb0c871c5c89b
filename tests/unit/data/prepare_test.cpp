#include "data/prepare.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "data/describe.hpp"
#include "unit/data/text_files.hpp"

namespace weft::data {
namespace {

using test::expect_error;
using test::made_up_text;
using test::TemporaryDirectory;
using test::write_file;

/// The text of each document of a file, decoded; the end-of-document token is checked and dropped.
std::vector<std::string> documents_of(const TokenFile& file, const Tokenizer& tokenizer) {
  std::vector<std::string> documents;
  for (std::int64_t i = 0; i < file.documents(); ++i) {
    const std::int64_t begin = file.document_start(i), count = file.document_start(i + 1) - begin;
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
    file.read(begin, count, ids.data());
    EXPECT_EQ(ids.back(), tokenizer.end_of_document());
    EXPECT_EQ(file.bytes_of(begin, count), static_cast<std::int64_t>(tokenizer.decode(ids).size()));
    documents.push_back(tokenizer.decode(ids));
  }
  return documents;
}

PrepareOptions options_in(const TemporaryDirectory& dir, const std::string& text) {
  write_file(dir / "text.txt", text);
  PrepareOptions options;
  options.text.files = {dir / "text.txt"};
  options.train = dir / "t.train.bin";
  options.valid = dir / "t.valid.bin";
  options.valid_fraction = 0.1;
  options.training.vocab = 500;
  return options;
}

TEST(Prepare, KeepsEveryByteOfEveryDocument) {
  for (const std::string tokenizer_spec : {"byte", "sentencepiece"}) {
    const TemporaryDirectory dir;
    std::string text;
    for (const std::string& hard : test::hard_texts())
      if (hard.find("\n\n") == hard.npos && !hard.empty()) text += hard + "\n\n";
    text += made_up_text(200000);
    PrepareOptions options = options_in(dir, text);
    options.tokenizer = tokenizer_spec;
    const PrepareReport report = prepare(options);
    const auto tokenizer = open_tokenizer(report.model.empty() ? "byte" : report.model);
    const TokenFile train = TokenFile::open(options.train), valid = TokenFile::open(options.valid);
    train.verify();
    valid.verify();
    check_tokenizer(train, *tokenizer);

    // This puts the two splits back together in the order of the text.
    const auto in_train = documents_of(train, *tokenizer), in_valid = documents_of(valid, *tokenizer);
    const RandomStream split(options.seed, "data.split");
    std::size_t t = 0, v = 0;
    DocumentReader reader(options.text);
    for (TextPiece piece; reader.next(piece);) {
      const bool held_out = split.uniform(static_cast<std::uint64_t>(piece.document)) < 0.1;
      ASSERT_EQ(held_out ? in_valid.at(v++) : in_train.at(t++), piece.text);
    }
    EXPECT_EQ(t, in_train.size());
    EXPECT_EQ(v, in_valid.size());
    EXPECT_NEAR(static_cast<double>(v) / static_cast<double>(t + v), 0.1, 0.03);
    EXPECT_EQ(report.train.tokens, train.tokens());
    EXPECT_EQ(report.valid.text_bytes, valid.text_bytes());
    EXPECT_FALSE(to_text(report).empty());
  }
}

TEST(Prepare, CountsTheBytesOfTheFile) {
  const TemporaryDirectory dir;
  // The text is longer than the reader's pieces.
  const std::string text = made_up_text(3000000) + std::string("\0\xff", 2);
  PrepareOptions options = options_in(dir, text);
  options.text.separator = "file";
  options.valid.clear();
  for (const std::string tokenizer : {"byte", "sentencepiece"}) {
    options.tokenizer = tokenizer;
    const PrepareReport report = prepare(options);
    const TokenFile file = TokenFile::open(options.train);
    EXPECT_EQ(file.documents(), 1);
    EXPECT_EQ(file.text_bytes(), static_cast<std::int64_t>(text.size()));
    EXPECT_EQ(file.bytes_of(0, file.tokens()), static_cast<std::int64_t>(text.size()));
    const std::int64_t half = file.tokens() / 2;
    EXPECT_EQ(file.bytes_of(0, half) + file.bytes_of(half, file.tokens() - half),
              static_cast<std::int64_t>(text.size()));
  }
}

TEST(Prepare, IsDeterministic) {
  const TemporaryDirectory dir;
  PrepareOptions options = options_in(dir, made_up_text(200000));
  options.tokenizer = "sentencepiece";
  prepare(options);
  const std::string train = test::read_file(options.train), valid = test::read_file(options.valid);
  prepare(options);
  EXPECT_TRUE(test::read_file(options.train) == train);
  EXPECT_TRUE(test::read_file(options.valid) == valid);
  options.seed = 2;
  prepare(options);
  EXPECT_TRUE(test::read_file(options.valid) != valid);
}

TEST(Prepare, SaysWhatIsWrong) {
  const TemporaryDirectory dir;
  const PrepareOptions good = options_in(dir, "one document\n");
  const auto refuses = [&](auto&& change, const std::vector<std::string>& parts) {
    PrepareOptions options = good;
    change(options);
    expect_error([&] { prepare(options); }, parts);
    EXPECT_FALSE(std::filesystem::exists(good.train));
    EXPECT_FALSE(std::filesystem::exists(good.valid));
  };
  refuses([](auto& o) { o.seed = 1; }, {"0 documents", "1 to validation", "0.1"});
  refuses([](auto& o) { o.seed = 2; }, {"1 documents", "0 to validation", "0.1"});
  refuses([](auto& o) { o.valid_fraction = 1.5; }, {"1.5"});
  refuses([](auto& o) { o.valid = o.train; }, {"both"});
  refuses([](auto& o) { o.train = ""; }, {"training file"});
  refuses([](auto& o) { o.tokenizer = "no/such.model"; }, {"no/such.model"});
  refuses([&](auto& o) { o.text.files = {dir / "none.txt"}; }, {"none.txt"});
  write_file(dir / "text.txt", "\n\n");
  refuses([](auto&) {}, {"no text"});
}

TEST(Describe, ShowsTheFile) {
  const TemporaryDirectory dir;
  PrepareOptions options = options_in(dir, "alpha beta\n\ngamma");
  options.valid.clear();
  prepare(options);
  const auto tokenizer = byte_tokenizer();
  const std::string text = describe(options.train, {.tokenizer = tokenizer.get(), .first = 11});
  for (const char* part : {"17 of 16 bits", "257 (byte", "documents         2", "15 bytes",
                           "97 108 112 104 97 32", "alpha beta\n"})
    EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
}

}  // namespace
}  // namespace weft::data
