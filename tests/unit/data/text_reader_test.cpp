#include "data/text_reader.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include "unit/data/text_files.hpp"

namespace weft::data {
namespace {

using test::expect_error;
using test::made_up_text;
using test::TemporaryDirectory;
using test::write_file;

std::vector<std::string> documents_of(const TextInputs& inputs) {
  DocumentReader reader(inputs);
  std::vector<std::string> documents;
  bool inside = false;
  for (TextPiece piece; reader.next(piece);) {
    EXPECT_LE(piece.text.size(), (std::size_t{1} << 20) + (std::size_t{1} << 18));
    if (!inside) documents.emplace_back();
    EXPECT_EQ(piece.document, static_cast<std::int64_t>(documents.size()) - 1);
    documents.back() += piece.text;
    inside = !piece.ends_document;
  }
  EXPECT_FALSE(inside);
  return documents;
}

void write_gzip(const std::string& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
}

using Documents = std::vector<std::string>;

TEST(DocumentReader, SplitsAtTheSeparator) {
  const TemporaryDirectory dir;
  const std::string path = dir / "a.txt";
  write_file(path, "one\ntwo\n\nthree\n\n\n\nfour\n");
  EXPECT_EQ(documents_of({{path}, "blank-line"}), (Documents{"one\ntwo", "three", "four\n"}));
  EXPECT_EQ(documents_of({{path}, "file"}), (Documents{"one\ntwo\n\nthree\n\n\n\nfour\n"}));
  EXPECT_EQ(documents_of({{path}, "\\n\\n\\n"}), (Documents{"one\ntwo\n\nthree", "\nfour\n"}));
  EXPECT_EQ(documents_of({{path, path}, "e\\n"}),
            (Documents{"on", "two\n\nthre", "\n\n\nfour\n", "on", "two\n\nthre", "\n\n\nfour\n"}));
  write_file(path, "");
  EXPECT_EQ(documents_of({{path}, "blank-line"}), Documents{});
  write_file(path, "\n\n\n\n");
  EXPECT_EQ(documents_of({{path}, "blank-line"}), Documents{});
  write_file(path, "no end");
  EXPECT_EQ(documents_of({{path}, "blank-line"}), Documents{"no end"});
}

// Compares with a plain search over the whole text, for separators in all places relative to the reader's
// blocks and cuts.
TEST(DocumentReader, FindsSeparatorsAcrossItsBlocks) {
  const TemporaryDirectory dir;
  const std::string path = dir / "a.txt", mark = "<|end|>";
  for (const std::size_t size :
       {std::size_t{1} << 18, std::size_t{1} << 20, (std::size_t{5} << 18) + 1, std::size_t{3} << 20}) {
    for (std::size_t shift = 0; shift <= mark.size(); ++shift) {
      const std::string first = std::string(size - shift, shift % 2 ? 'x' : '\n');
      write_file(path, first + mark + "<|en" + mark + "last\xe2\x82\xac");
      EXPECT_TRUE(documents_of({{path}, mark}) == (Documents{first, "<|en", "last\xe2\x82\xac"}))
          << size << " " << shift;
    }
  }
  const std::string text = made_up_text(3000000);
  write_file(path, text);
  Documents expected;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find("\n\n", begin), text.size());
    if (end > begin) expected.push_back(text.substr(begin, end - begin));
    begin = end + 2;
  }
  EXPECT_TRUE(documents_of({{path}, "blank-line"}) == expected);
}

TEST(DocumentReader, TellsWhetherTheSeparatorWasFound) {
  const TemporaryDirectory dir;
  const std::string with = dir / "with.txt", without = dir / "without.txt", jsonl = dir / "a.jsonl";
  write_file(with, "one\n\ntwo");
  write_file(without, "one\ntwo");
  write_file(jsonl, "{\"text\": \"one\"}\n");
  const auto found = [](const TextInputs& inputs) {
    DocumentReader reader(inputs);
    for (TextPiece piece; reader.next(piece);) {
    }
    return reader.separator_found();
  };
  EXPECT_TRUE(found({{with}, "blank-line"}));
  EXPECT_TRUE(found({{without, with, without}, "blank-line"}));
  EXPECT_FALSE(found({{without}, "blank-line"}));
  EXPECT_FALSE(found({{with, without}, "blankline"}));
  EXPECT_FALSE(found({{jsonl, without}, "blank-line"}));
  // Here there is nothing to find.
  EXPECT_TRUE(found({{without}, "file"}));
  EXPECT_TRUE(found({{jsonl}, "blank-line"}));
}

TEST(DocumentReader, ReadsGzipAndJsonLines) {
  const TemporaryDirectory dir;
  const std::string text = made_up_text(700000), gz = dir / "a.txt.gz", jsonl = dir / "b.jsonl",
                    both = dir / "c.jsonl.gz";
  write_gzip(gz, text);
  EXPECT_TRUE(documents_of({{gz}, "file"}) == Documents{text});
  const std::string rows =
      "{\"text\": \"a\\n\\nb \\u00e9\", \"id\": 1}\n\n{\"text\": \"\"}\r\n{\"id\": 2, \"text\": \"last\"}";
  const Documents expected{"a\n\nb \xc3\xa9", "last"};
  write_file(jsonl, rows);
  write_gzip(both, rows);
  EXPECT_EQ(documents_of({{jsonl}, "blank-line"}), expected);
  EXPECT_EQ(documents_of({{both}, "blank-line"}), expected);
  write_file(jsonl, "{\"text\": \"a\"}\n{\"text\": 3}\n");
  expect_error([&] { documents_of({{jsonl}, "file"}); }, {jsonl + ":2:", "text"});
  write_file(jsonl, "{\"text\": \"a\"}\nnonsense\n");
  expect_error([&] { documents_of({{jsonl}, "file"}); }, {jsonl + ":2:"});
}

/// The bytes of a gzip member.
std::string gzip(const TemporaryDirectory& dir, const std::string& text) {
  write_gzip(dir / "member.gz", text);
  return test::read_file(dir / "member.gz");
}

TEST(DocumentReader, ReadsAllMembersOfAGzipFile) {
  const TemporaryDirectory dir;
  const std::string gz = dir / "a.gz", long_text = made_up_text(700000), zeros(300000, '\0');
  const std::string first = gzip(dir, "one\n"), empty = gzip(dir, ""), last = gzip(dir, long_text);
  for (const std::string& padding : {std::string(), std::string(1, '\0'), zeros}) {
    write_file(gz, first + empty + last + padding);
    EXPECT_TRUE(documents_of({{gz}, "file"}) == Documents{"one\n" + long_text}) << padding.size();
  }
  write_file(gz, empty + zeros);
  EXPECT_EQ(documents_of({{gz}, "file"}), Documents{});
}

TEST(DocumentReader, TakesWhatDoesNotBeginLikeGzipAsItIs) {
  const TemporaryDirectory dir;
  const std::string path = dir / "a.gz", member = gzip(dir, "one");
  for (const std::string& text :
       {std::string("\x1f"), std::string("\x1fx"), std::string(2, '\0') + member, "text " + member}) {
    write_file(path, text);
    EXPECT_TRUE(documents_of({{path}, "file"}) == Documents{text}) << text.size();
  }
}

TEST(DocumentReader, LeavesOutNothingBehindAGzipMember) {
  const TemporaryDirectory dir;
  const std::string gz = dir / "a.gz", member = gzip(dir, "one"), zeros(2, '\0');
  std::string many_zeros(300000, '\0');
  many_zeros.back() = 'x';
  for (const std::string& rest :
       {std::string("plain text"), zeros + member, zeros + "x", many_zeros, std::string("\x1f"),
        std::string("\x1fx"), member.substr(0, 2), member.substr(0, member.size() - 1)}) {
    write_file(gz, member + rest);
    expect_error([&] { documents_of({{gz}, "file"}); }, {gz, "cannot read"});
  }
  write_file(gz, member + "plain text");
  expect_error([&] { documents_of({{gz}, "file"}); }, {"what follows its gzip data is not gzip"});
  write_file(gz, member.substr(0, member.size() - 1));
  expect_error([&] { documents_of({{gz}, "file"}); }, {gz, "unexpected end of file"});
  std::string damaged = member;
  damaged[member.size() - 8] ^= 1;  // of the checksum
  write_file(gz, damaged);
  expect_error([&] { documents_of({{gz}, "file"}); }, {gz, "incorrect data check"});
}

TEST(DocumentReader, SaysWhatItCannotRead) {
  const TemporaryDirectory dir;
  const std::string gz = dir / "a.gz";
  write_gzip(gz, made_up_text(700000));
  const std::string bytes = test::read_file(gz);
  write_file(gz, bytes.substr(0, bytes.size() / 2));
  expect_error([&] { documents_of({{gz}, "file"}); }, {gz, "cannot read"});
  expect_error([&] { documents_of({{dir / "none"}, "file"}); }, {"none", "No such file"});
  expect_error([&] { documents_of({{dir.path()}, "file"}); }, {dir.path(), "cannot"});
  expect_error([&] { documents_of({{}, "file"}); }, {"no text"});
  expect_error([&] { documents_of({{gz}, ""}); }, {"separator"});
  expect_error([&] { documents_of({{gz}, "\\q"}); }, {"escape"});
}

}  // namespace
}  // namespace weft::data
