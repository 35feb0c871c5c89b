// Tests `weft data import`: tokens of a text that went by way of another code's files give the token files
// that the text itself gives, byte for byte. Files of Megatron-LM are also its own
// (tests/golden/make_megatron.py).
#include "data/import.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/foreign_tokens.hpp"
#include "data/prepare.hpp"
#include "unit/data/text_files.hpp"

namespace weft::data {
namespace {

using test::expect_error;
using test::made_up_text;
using test::read_file;
using test::TemporaryDirectory;
using test::write_file;

using WideIds = std::vector<std::int64_t>;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::string stored_as(const WideIds& ids) {
  return bytes_of(std::vector<T>(ids.begin(), ids.end()));
}

/// llm.c's file: its header of 256 integers, and the tokens.
std::string llmc_file(const WideIds& ids, bool for_llama) {
  std::vector<std::int32_t> header(256);
  header[0] = for_llama ? 20240801 : 20240520;
  header[1] = for_llama ? 7 : 1;
  header[2] = static_cast<std::int32_t>(ids.size());
  return bytes_of(header) + (for_llama ? stored_as<std::uint32_t>(ids) : stored_as<std::uint16_t>(ids));
}

/// What stands in an index of Megatron-LM.
struct Index {
  std::uint8_t type = 4;
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> documents{0};  ///< the sequence at which each begins, and their end
  std::uint64_t version = 1;

  std::string text(std::size_t size) const {
    std::vector<std::int64_t> pointers;
    std::int64_t at = 0;
    for (const std::int32_t length : lengths) {
      pointers.push_back(at);
      at += length * static_cast<std::int64_t>(size);
    }
    std::string bytes("MMIDIDX\0\0", 9);
    const auto put = [&](const auto& value) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    put(version);
    put(type);
    put(std::uint64_t{lengths.size()});
    put(std::uint64_t{documents.size()});
    return bytes + bytes_of(lengths) + bytes_of(pointers) + bytes_of(documents);
  }
};

/// A corpus as documents' tokens, and the token files that its text gives.
struct Corpus {
  TemporaryDirectory dir;
  std::unique_ptr<Tokenizer> tokenizer;
  ImportOptions options;
  std::vector<WideIds> documents;

  explicit Corpus(const std::string& with) : tokenizer(open_tokenizer(with)) {
    PrepareOptions prepared;
    std::string text = made_up_text(100000);
    text += "\n\n" + std::string(3 << 20, 'x') + "\n\nthe last one";  // longer than a piece
    write_file(dir / "text.txt", text);
    prepared.text.files = {dir / "text.txt"};
    prepared.train = dir / "text.train.bin";
    prepared.valid = dir / "text.valid.bin";
    prepared.valid_fraction = 0.2;
    prepared.tokenizer = with;
    prepare(prepared);
    DocumentReader reader(prepared.text, [&](std::string_view t) { return tokenizer->last_cut(t); });
    bool begins = true;
    for (TextPiece piece; reader.next(piece); begins = piece.ends_document) {
      if (begins) documents.emplace_back();
      const auto ids = tokenizer->encode(piece.text);
      documents.back().insert(documents.back().end(), ids.begin(), ids.end());
    }
    options.train = dir / "train.bin";
    options.valid = dir / "valid.bin";
    options.valid_fraction = 0.2;
    options.tokenizer = with;
  }

  /// All tokens in a row, each document between these two where they are 0 or more.
  WideIds stream(std::int32_t before, std::int32_t behind) const {
    WideIds ids;
    for (const WideIds& document : documents) {
      if (before >= 0) ids.push_back(before);
      ids.insert(ids.end(), document.begin(), document.end());
      if (behind >= 0) ids.push_back(behind);
    }
    return ids;
  }

  void expect_equal_files(std::vector<std::string> files, int raw_bytes = 0) {
    options.files = std::move(files);
    options.raw_bytes = raw_bytes;
    const ImportReport report = import_tokens(options);
    EXPECT_TRUE(read_file(options.train) == read_file(dir / "text.train.bin"));
    EXPECT_TRUE(read_file(options.valid) == read_file(dir / "text.valid.bin"));
    EXPECT_EQ(report.train.documents + report.valid.documents, std::ssize(documents));
    const std::string first =
        tokenizer->decode(std::vector<std::int32_t>(documents[0].begin(), documents[0].end()));
    ASSERT_FALSE(report.first_text.empty());
    EXPECT_EQ(first.substr(0, report.first_text.size()), report.first_text);
    EXPECT_TRUE(std::filesystem::remove(options.train) && std::filesystem::remove(options.valid));
  }

  /// Writes the documents as Megatron-LM does, each in sequences of at most `most` tokens.
  template <class T>
  std::string write_megatron(std::uint8_t type, std::size_t most, bool with_end) {
    Index index;
    index.type = type;
    WideIds all;
    for (WideIds document : documents) {
      if (with_end) document.push_back(tokenizer->end_of_document());
      for (std::size_t at = 0; at < document.size(); at += most)
        index.lengths.push_back(static_cast<std::int32_t>(std::min(most, document.size() - at)));
      index.documents.push_back(std::ssize(index.lengths));
      all.insert(all.end(), document.begin(), document.end());
    }
    write_file(dir / "mega_text_document.bin", stored_as<T>(all));
    write_file(dir / "mega_text_document.idx", index.text(sizeof(T)));
    return dir / "mega_text_document";
  }
};

TEST(Import, TokensOfLlmcGiveTheFilesOfTheirText) {
  Corpus corpus("byte");
  const std::int32_t end = corpus.tokenizer->end_of_document();
  // llm.c puts the token before each document, others behind it.
  for (const bool before : {true, false}) {
    const WideIds ids = corpus.stream(before ? end : -1, before ? -1 : end);
    for (const bool for_llama : {false, true}) {
      // Shards, of which the first ends within a document.
      const WideIds one(ids.begin(), ids.begin() + 1234), two(ids.begin() + 1234, ids.end());
      write_file(corpus.dir / "a.bin", llmc_file(one, for_llama));
      write_file(corpus.dir / "b.bin", llmc_file(two, for_llama));
      corpus.expect_equal_files({corpus.dir / "a.bin", corpus.dir / "b.bin"});
    }
    write_file(corpus.dir / "raw", stored_as<std::uint16_t>(ids));
    corpus.expect_equal_files({corpus.dir / "raw"}, 2);
    write_file(corpus.dir / "raw", stored_as<std::uint32_t>(ids));
    corpus.expect_equal_files({corpus.dir / "raw"}, 4);
  }
}

TEST(Import, TokensOfMegatronGiveTheFilesOfTheirText) {
  Corpus corpus("byte");
  for (const bool with_end : {true, false}) {
    const std::string prefix = corpus.write_megatron<std::uint16_t>(8, 1 << 30, with_end);
    for (const char* name : {"", ".bin", ".idx"}) corpus.expect_equal_files({prefix + name});
    corpus.expect_equal_files({corpus.write_megatron<std::int32_t>(4, 100, with_end)});
    corpus.expect_equal_files({corpus.write_megatron<std::int64_t>(5, 7, with_end)});
    corpus.expect_equal_files({corpus.write_megatron<std::uint32_t>(9, 1000, with_end)});
    if (!with_end) corpus.expect_equal_files({corpus.write_megatron<std::uint8_t>(1, 1000, with_end)});
  }
}

TEST(Import, DocumentsOfSeveralFilesAreNumberedThrough) {
  Corpus corpus("byte");
  const std::vector<WideIds> all = corpus.documents;
  const auto half = static_cast<std::ptrdiff_t>(all.size() / 2);
  const std::int32_t end = corpus.tokenizer->end_of_document();
  // The last document of llm.c's file is still open when that of Megatron-LM begins.
  corpus.documents.assign(all.begin(), all.begin() + half);
  write_file(corpus.dir / "a.bin", llmc_file(corpus.stream(end, -1), false));
  corpus.documents.assign(all.begin() + half, all.end());
  const std::string prefix = corpus.write_megatron<std::int32_t>(4, 1000, true);
  corpus.documents = all;
  corpus.expect_equal_files({corpus.dir / "a.bin", prefix + ".bin"});
}

TEST(Import, WhatNeverEndsIsToldToBeOneDocument) {
  Corpus corpus("byte");
  ImportOptions options = corpus.options;
  write_file(corpus.dir / "a.bin", llmc_file(corpus.stream(-1, -1), false));
  options.files = {corpus.dir / "a.bin"};
  expect_error([&] { import_tokens(options); },
               {"documents fell to", "token 256, which ends documents, is in none", "--end-of-document"});
  options.valid.clear();
  const ImportReport report = import_tokens(options);
  EXPECT_TRUE(report.never_ends);
  EXPECT_EQ(report.train.documents, 1);
  write_file(corpus.dir / "a.bin", llmc_file(corpus.stream(-1, 256), false));
  EXPECT_FALSE(import_tokens(options).never_ends);
}

TEST(Import, TheBeginningIsPrintedWhateverItIs) {
  const TemporaryDirectory dir;
  ImportOptions options;
  options.files = {dir / "a.bin"};
  options.train = dir / "train.bin";
  options.tokenizer = "byte";
  const auto begins = [&](const std::string& text) {
    write_file(dir / "a.bin", llmc_file(WideIds(text.size(), 0), false));
    WideIds ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    write_file(dir / "a.bin", llmc_file(ids, false));
    const std::string shown = to_text(import_tokens(options));
    return shown.substr(shown.find("begins") + 12);
  };
  EXPECT_EQ(begins("123456789012345\xc3\xa9"), "123456789012345\n") << "the letter is cut";
  EXPECT_EQ(begins("12\xc3\xa9\n\xe2\x82"), "12\xc3\xa9\\n\n");
  EXPECT_EQ(begins("a\xff\xe9z and more"), "a\\xff\\xe9z and more\n");
}

#ifdef WEFT_HAS_PCRE2
TEST(Import, TheTokenThatEndsDocumentsMayBeNamed) {
  const std::string json = std::string(WEFT_SOURCE_DIR) + "/tests/golden/tokenizers/llama3.json";
  const auto tokenizer = open_tokenizer(json, "<|eot_id|>");
  const TemporaryDirectory dir;
  const std::int64_t end = tokenizer->end_of_document();
  ASSERT_NE(end, open_tokenizer(json)->end_of_document());
  write_file(dir / "raw", stored_as<std::uint32_t>({5, 6, end, 7, end}));
  ImportOptions options;
  options.files = {dir / "raw"};
  options.train = dir / "train.bin";
  options.raw_bytes = 4;
  options.tokenizer = json;
  EXPECT_TRUE(import_tokens(options).never_ends);
  options.end_of_document = "<|eot_id|>";
  EXPECT_EQ(import_tokens(options).train.documents, 2);
  EXPECT_EQ(TokenFile::open(options.train).end_of_document(), end);
}

TEST(Import, ATokenThatBeginsDocumentsStandsBeforeEachOnce) {
  Corpus corpus(std::string(WEFT_SOURCE_DIR) + "/tests/golden/tokenizers/llama3.json");
  const std::int32_t begin = corpus.tokenizer->begin_of_document(), end = corpus.tokenizer->end_of_document();
  ASSERT_GE(begin, 0);
  for (const WideIds& ids : {corpus.stream(begin, -1), corpus.stream(begin, end), corpus.stream(-1, end)}) {
    write_file(corpus.dir / "a.bin", llmc_file(ids, true));
    corpus.expect_equal_files({corpus.dir / "a.bin"});
  }
  corpus.expect_equal_files({corpus.write_megatron<std::int32_t>(4, 1 << 30, false)});
}
#endif

TEST(Import, MegatronsOwnFilesAreRead) {
  const TemporaryDirectory dir;
  ImportOptions options;
  options.train = dir / "train.bin";
  options.tokenizer = "byte";
  for (const char* name : {"megatron_u16", "megatron_i32"}) {
    options.files = {std::string(WEFT_SOURCE_DIR) + "/tests/golden/tokens/" + name};
    const ImportReport report = import_tokens(options);
    EXPECT_EQ(report.files.at(0).format, "Megatron-LM");
    const TokenFile file = TokenFile::open(options.train);
    const auto tokenizer = open_tokenizer("byte");
    std::vector<std::string> texts;
    for (std::int64_t i = 0; i < file.documents(); ++i) {
      std::vector<std::int32_t> ids(
          static_cast<std::size_t>(file.document_start(i + 1) - file.document_start(i)));
      file.read(file.document_start(i), std::ssize(ids), ids.data());
      EXPECT_EQ(ids.back(), 256);
      texts.push_back(tokenizer->decode(ids));
    }
    EXPECT_EQ(texts,
              (std::vector<std::string>{"One sentence. Another.", "two\n", "\xc3\xa9t\xc3\xa9", "ab"}));
    EXPECT_NE(to_text(report).find("begins      One sentence. An\n"), std::string::npos) << to_text(report);
  }
}

TEST(Import, WhatCannotBeReadIsNamed) {
  Corpus corpus("byte");
  ImportOptions options = corpus.options;
  const std::string bin = corpus.dir / "a.bin", idx = corpus.dir / "a.idx";
  const auto names = [&] {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(corpus.dir.path()))
      found.insert(entry.path());
    return found;
  };
  const auto refuses = [&](const std::vector<std::string>& parts) {
    options.files = {bin};
    const auto before = names();
    expect_error([&] { import_tokens(options); }, parts);
    EXPECT_EQ(names(), before);
  };
  refuses({"cannot open the file of tokens", bin, "No such file", "check the path"});
  const std::string good = llmc_file({1, 2, 256, 3}, false);
  const auto with = [&](std::size_t at, std::int32_t value) {
    std::string changed = good;
    std::memcpy(changed.data() + 4 * at, &value, 4);
    write_file(bin, changed);
  };
  with(0, 20240521);
  refuses({bin, "no format that is known", idx, "--raw 2"});
  write_file(bin, "");
  refuses({bin, "no format that is known"});
  with(1, 2);
  refuses({bin, "version 2", "reads 1"});
  with(2, 5);
  refuses({bin, "has 4 tokens (its header says 5)"});
  write_file(bin, good.substr(0, 100));
  refuses({bin, "truncated", "1024"});
  write_file(bin, good.substr(0, good.size() - 1));
  refuses({bin, "7 bytes of tokens (not a multiple of 2)"});
  write_file(bin, llmc_file({1, 2, 256, 300}, false));
  refuses({"token 3 of " + bin, "is 300", "257 ids"});
  write_file(bin, llmc_file({256, 1, 2, 3, 256}, false));
  refuses({"documents fell to", "give files with more documents"});
  for (const WideIds& ids : {WideIds{}, WideIds{256, 256}}) {
    write_file(bin, llmc_file(ids, false));
    refuses({"no tokens in the files but those that stand around documents"});
  }
  std::filesystem::copy_file(corpus.dir / "text.train.bin", bin,
                             std::filesystem::copy_options::overwrite_existing);
  refuses({bin + " is a token file of Weft already"});
  for (const int raw_bytes : {2, 4}) {
    options.raw_bytes = raw_bytes;
    refuses({"more than tokens", "a token file of Weft already", "--raw"});
  }
  write_file(bin, good);
  refuses({"more than tokens", "a file of llm.c"});
  write_file(bin, "\x93NUMPY and so on");
  refuses({"more than tokens", "numpy.save()"});
  write_file(bin, std::string("MMIDIDX\0\0", 9) + "1234567");
  refuses({"more than tokens", "an index of Megatron-LM"});
  write_file(bin, stored_as<std::int32_t>({1, -1}));
  refuses({"token 1 of " + bin, "4294967295"});
  options.raw_bytes = 0;

  Index index;
  index.lengths = {2, 1};
  index.documents = {0, 1, 2};
  const auto write_index = [&](const Index& i) {
    write_file(bin, stored_as<std::int32_t>({1, 2, 3}));
    write_file(idx, i.text(4));
  };
  write_index(index);
  const std::string whole = read_file(idx);
  write_file(idx, "MMIDIDY" + whole.substr(7));
  refuses({idx, "is no index that this Weft reads"});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_file(idx, whole.substr(0, size));
    refuses({idx});
  }
  write_file(idx, whole + std::string(2, '\0'));  // modes
  refuses({idx, "multimodal"});
  Index changed = index;
  changed.version = 2;
  write_index(changed);
  refuses({idx, "version 2"});
  for (const std::uint8_t type : {0, 2, 3, 6, 7, 10}) {
    changed = index;
    changed.type = type;
    write_index(changed);
    refuses({idx, fmt::format("elements of type {}", type)});
  }
  changed = index;
  changed.lengths = {2, 2};
  write_index(changed);
  refuses({bin, "has 12 bytes", idx, "says 16"});
  changed.lengths = {-1, 4};
  write_index(changed);
  refuses({idx, "sequence 0 has -1 tokens"});
  changed = index;
  changed.documents = {1, 2};
  write_index(changed);
  refuses({idx, "document 0 begins at sequence 1"});
  changed.documents = {0, 1};
  write_index(changed);
  refuses({idx, "documents end at sequence 1, and it has 2"});
  changed.documents = {0, 1, 3};
  write_index(changed);
  refuses({idx, "documents end at sequence 3, and it has 2"});
  changed.documents = {0, 2, 1};
  changed.lengths = {1, 1, 1};
  write_index(changed);
  refuses({idx, "document 2 begins at sequence 1, the one before it at 2"});
  write_index(index);
  write_file(idx, std::string(whole).replace(34 + 4 * 2 + 8, 1, "\x01"));
  refuses({idx, "begins at byte 1 instead of 8"});
  write_file(bin, stored_as<std::int32_t>({1, -2, 3}));
  write_file(idx, whole);
  refuses({"token 1 of " + bin, "is -2"});
  std::filesystem::remove(bin);
  refuses({"cannot open the file of tokens", bin});
  write_index(index);
  std::filesystem::rename(idx, corpus.dir / "elsewhere.idx");
  options.files = {corpus.dir / "a"};
  expect_error([&] { import_tokens(options); }, {bin, "without its index", idx});
  std::filesystem::rename(corpus.dir / "elsewhere.idx", idx);
  options.files = {bin, idx};
  expect_error([&] { import_tokens(options); }, {"tokens of " + bin + " are named twice"});

  options.files = {bin};
  options.force = true;
  for (const auto& [path, what] : {std::pair(bin, "the file of tokens"), {idx, "the index"}}) {
    options.train = path;
    const std::string before = read_file(path);
    expect_error([&] { import_tokens(options); }, {"the training file", what, path});
    EXPECT_EQ(read_file(path), before);
  }
}

/// Whatever an index says, no token is read twice, none behind the file's end, and reading comes to an end.
TEST(Import, AnyFlippedBitOfAnIndexIsRefusedOrHarmless) {
  const TemporaryDirectory dir;
  Index index;
  index.lengths = {2, 1, 0, 3};
  index.documents = {0, 1, 1, 4};
  const WideIds ids{1, 2, 3, 4, 5, 6};
  write_file(dir / "a.bin", stored_as<std::int32_t>(ids));
  const std::string whole = index.text(4);
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    write_file(dir / "a.idx", flipped);
    try {
      const auto file = open_foreign_tokens(dir / "a.bin");
      WideIds read;
      for (WideIds piece; file->next(piece);) read.insert(read.end(), piece.begin(), piece.end());
      EXPECT_EQ(read, ids) << "bit " << bit;
    } catch (const Error& e) {
      ++refused;
      EXPECT_EQ(e.code(), ExitCode::bad_input) << "bit " << bit << ": " << e.what();
    }
  }
  // Harmless are the bits that move a document's beginning to another sequence.
  EXPECT_GE(refused, 8 * static_cast<int>(whole.size()) - 8);
}

}  // namespace
}  // namespace weft::data
