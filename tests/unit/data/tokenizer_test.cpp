#include "data/tokenizer.hpp"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "data/sentencepiece_tokenizer.hpp"
#include "data/text_runs.hpp"
#include "unit/data/text_files.hpp"

namespace weft::data {
namespace {

using test::expect_error;
using test::hard_texts;
using test::made_up_text;
using test::read_file;
using test::TemporaryDirectory;
using test::write_file;

void expect_lossless(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.encode(text);
  EXPECT_TRUE(tokenizer.decode(ids) == text) << text.substr(0, 200);
  std::int64_t bytes = 0;
  for (const std::int32_t id : ids) {
    ASSERT_GE(id, 0);
    ASSERT_LT(id, tokenizer.vocab());
    EXPECT_NE(id, tokenizer.end_of_document());
    bytes += tokenizer.bytes_of(id);
  }
  EXPECT_EQ(bytes, static_cast<std::int64_t>(text.size()));
}

/// A mixture, in random order, of pieces of the hard texts and random bytes.
std::string random_mixture(std::uint64_t seed) {
  const RandomStream random(seed, "test.mixture");
  const auto texts = hard_texts();
  std::string mixture;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const auto r = random.bits(i);
    const std::string& text = texts[r % texts.size()];
    mixture += (r >> 32) % 3 == 0 ? std::string(1, static_cast<char>(r >> 40))
                                  : text.substr((r >> 8) % (text.size() + 1), (r >> 16) % 9);
  }
  return mixture;
}

TEST(ByteTokenizer, IsLossless) {
  const auto tokenizer = open_tokenizer("byte");
  EXPECT_EQ(tokenizer->vocab(), 257);
  EXPECT_EQ(tokenizer->end_of_document(), 256);
  EXPECT_EQ(tokenizer->encode("Az\xff"), (std::vector<std::int32_t>{65, 122, 255}));
  for (const std::string& text : hard_texts()) expect_lossless(*tokenizer, text);
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{72, 105, 256}), "Hi");
  expect_error([&] { (void)tokenizer->decode(std::vector<std::int32_t>{257}); }, {"257"});
}

/// Has one model of each type, trained once for all tests.
class SentencePiece : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory;
    std::string text = made_up_text(300000) + "\xc3\xa9t\xc3\xa9 \xe2\x96\x81 \xff\n";
    for (int i = 0; i < 2000; ++i) text += "in 1913\n\n";
    write_file(text_path(), text);
  }
  static void TearDownTestSuite() { delete directory_; }

  static std::string text_path() { return *directory_ / "text.txt"; }
  static std::string model() {
    const std::string path = *directory_ / (GetParam() + ".model");
    if (!std::filesystem::exists(path)) train(path);
    return path;
  }
  static void train(const std::string& path) {
    write_file(path,
               train_sentencepiece({{text_path()}, "blank-line"},
                                   {.vocab = 600, .type = GetParam(), .sample_bytes = 100000, .uses = {}}));
  }

  static TemporaryDirectory* directory_;
};
TemporaryDirectory* SentencePiece::directory_ = nullptr;

TEST_P(SentencePiece, IsLossless) {
  const auto tokenizer = open_tokenizer(model());
  EXPECT_EQ(tokenizer->vocab(), 600);
  for (const std::string& text : hard_texts()) expect_lossless(*tokenizer, text);
  for (std::uint64_t i = 0; i < 300; ++i) expect_lossless(*tokenizer, random_mixture(i));
  expect_lossless(*tokenizer, read_file(text_path()));
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{tokenizer->end_of_document()}), "");
}

TEST_P(SentencePiece, Compresses) {
  const auto tokenizer = open_tokenizer(model());
  const std::string text = made_up_text(100000, 6);
  EXPECT_LT(tokenizer->encode(text).size(), text.size() / 2);
}

// The library itself is the reference: our way around it must not change ids of plain text.
TEST_P(SentencePiece, HasNoPieceOfSeveralDigitsOrLines) {
  const auto tokenizer = open_tokenizer(model());
  for (std::int32_t id = 0; id < tokenizer->vocab(); ++id) {
    const std::string_view text = tokenizer->text_of(id);
    EXPECT_LE(std::count_if(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; }),
              1)
        << text;
    EXPECT_TRUE(text.size() == 1 || text.find('\n') == text.npos) << text;
  }
}

TEST_P(SentencePiece, HasTheIdsOfTheLibrary) {
  const auto tokenizer = open_tokenizer(model());
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.Load(model()).ok());
  // The sums of scores of a unigram model round differently where a line stands among others, so there each
  // line is a text.
  const std::string end_of_part = GetParam() == "bpe" ? "\n\n" : "\n";
  const std::string text = made_up_text(200000, 7);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(end_of_part, begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    std::vector<int> expected;
    ASSERT_TRUE(library.Encode(part, &expected).ok());
    ASSERT_EQ(tokenizer->encode(part), expected) << part;
    begin = end + end_of_part.size();
  }
}

TEST_P(SentencePiece, MayBeCutAtLineEnds) {
  const auto tokenizer = open_tokenizer(model());
  const std::string text = made_up_text(20000, 8);
  std::vector<std::int32_t> ids;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    tokenizer->encode_append(std::string_view(text).substr(begin, end - begin), ids);
    begin = end;
  }
  EXPECT_EQ(ids, tokenizer->encode(text));
}

TEST_P(SentencePiece, TrainsTheSameModelAgain) {
  const std::string first = model(), second = *directory_ / "again.model";
  train(second);
  EXPECT_TRUE(read_file(first) == read_file(second));
}

INSTANTIATE_TEST_SUITE_P(Types, SentencePiece, ::testing::Values("bpe", "unigram"),
                         [](const auto& info) { return info.param; });

TEST(SentencePieceModel, RefusesWhatItCannotUse) {
  const TemporaryDirectory dir;
  expect_error([&] { (void)open_tokenizer(dir / "none.model"); }, {"none.model", "No such file"});
  write_file(dir / "text.model", "once upon a time");
  expect_error([&] { (void)open_tokenizer(dir / "text.model"); },
               {"text.model", "not a SentencePiece model"});
  write_file(dir / "empty.model", "");
  expect_error([&] { (void)open_tokenizer(dir / "empty.model"); },
               {"empty.model", "not a SentencePiece model"});
  expect_error([&] { (void)open_tokenizer(dir.path()); }, {dir.path(), "Is a directory"});
}

// The models are what the library makes by its defaults, and with one of our settings missing.
TEST(SentencePieceModel, RefusesModelsThatLoseText) {
  const TemporaryDirectory dir;
  write_file(dir / "a.txt", made_up_text(100000));
  const std::string common =
      "--input=" + (dir / "a.txt") +
      " --minloglevel=2 --model_type=bpe --vocab_size=400 --model_prefix=" + (dir / "m");
  const std::string prefix = " --add_dummy_prefix=false", spaces = " --remove_extra_whitespaces=false",
                    bytes = " --byte_fallback=true", identity = " --normalization_rule_name=identity";
  const auto train = [&](const std::string& settings) {
    ASSERT_TRUE(sentencepiece::SentencePieceTrainer::Train(common + settings).ok());
  };
  for (const std::string& lossy : {std::string(), spaces + bytes + identity, prefix + bytes + identity,
                                   prefix + spaces + identity, prefix + spaces + bytes}) {
    train(lossy);
    expect_error([&] { (void)open_tokenizer(dir / "m.model"); }, {dir / "m.model", "loses text"});
  }
  train(prefix + spaces + bytes + identity + " --eos_id=-1");
  expect_error([&] { (void)open_tokenizer(dir / "m.model"); }, {"end-of-sentence"});
  train(prefix + spaces + bytes + identity);
  const auto tokenizer = open_tokenizer(dir / "m.model");
  for (const std::string& text : hard_texts()) expect_lossless(*tokenizer, text);
}

TEST(SentencePieceModel, RefusesToTrainOnTooLittle) {
  const TemporaryDirectory dir;
  write_file(dir / "a.txt", "one two three\n");
  const auto train = [&](const std::string& file, std::int64_t vocab, const std::string& type) {
    (void)train_sentencepiece({{file}, "file"}, {.vocab = vocab, .type = type, .uses = {}});
  };
  expect_error([&] { train(dir / "a.txt", 8000, "bpe"); }, {"8000", "14 bytes"});
  expect_error([&] { train(dir / "a.txt", 100, "bpe"); }, {"100"});
  expect_error([&] { train(dir / "a.txt", 300, "trigram"); }, {"trigram"});
  expect_error([&] { train("-", 300, "bpe"); }, {"standard input"});
  write_file(dir / "empty.txt", "");
  expect_error([&] { train(dir / "empty.txt", 300, "bpe"); }, {"no text"});
}

TEST(TextRuns, FollowTheUnicodeTable) {
  EXPECT_EQ(utf8_length("a"), 1u);
  EXPECT_EQ(utf8_length("\xc3\xa9"), 2u);
  EXPECT_EQ(utf8_length("\xe2\x82\xac"), 3u);
  EXPECT_EQ(utf8_length("\xf4\x8f\xbf\xbf"), 4u);
  for (const char* bad : {"\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82"})
    EXPECT_EQ(utf8_length(bad), 0u) << bad;
  EXPECT_EQ(utf8_cut("ab\xe2\x82\xac", 3), 2u);
  EXPECT_EQ(utf8_cut("ab\xe2\x82\xac", 5), 5u);
  EXPECT_EQ(utf8_cut("abc", 2), 2u);
}

}  // namespace
}  // namespace weft::data
