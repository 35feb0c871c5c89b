#include "data/prepare.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>

#include "data/describe.hpp"
#include "unit/data/text_files.hpp"

namespace weft::data {
namespace {

using test::expect_error;
using test::in_child;
using test::made_up_text;
using test::read_file;
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

/// Expects that prepare() throws an Error that `is_meant`, in a child process that `begin` has changed.
template <class Begin, class IsMeant>
void expect_error_in_child(const PrepareOptions& options, Begin&& begin, IsMeant&& is_meant) {
  const int status = in_child([&] {
    begin();
    try {
      prepare(options);
    } catch (const Error& e) {
      ::_exit(is_meant(e) ? 7 : 8);
    }
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
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
  options.force = true;  // the model may be another one
  prepare(options);
  EXPECT_TRUE(test::read_file(options.valid) != valid);
}

/// Whatever text is held out, the same tokenizer is learnt: from all documents for training, and from a
/// sample of them, whose share of lines is that of their own bytes.
TEST(Prepare, LearnsFromTheTrainingDocumentsAlone) {
  for (const std::int64_t sample_bytes : {1 << 20, 20000}) {
    SCOPED_TRACE(sample_bytes);
    const auto learnt = [&](bool other_text, bool hold_out) {
      const TemporaryDirectory dir;
      PrepareOptions options = options_in(dir, "");
      options.tokenizer = "sentencepiece";
      options.valid_fraction = 0.3;
      options.training.vocab = 400;
      options.training.sample_bytes = sample_bytes;
      const RandomStream split(options.seed, "data.split");
      std::string text;
      int held_out = 0;
      for (std::uint64_t document = 0; document < 200; ++document) {
        std::string line = made_up_text(400, document);  // without q, x, y and z
        std::replace(line.begin(), line.end(), '\n', ' ');
        if (split.uniform(document) < options.valid_fraction) {
          ++held_out;
          if (other_text) line.assign(900, "qxyz"[held_out % 4]).append(" zyxq xyzzy qzqz");
        }
        text += line + "\n\n";
      }
      EXPECT_GT(held_out, 40);
      write_file(dir / "text.txt", text);
      if (!hold_out) options.valid.clear();
      return read_file(prepare(options).model);
    };
    const std::string model = learnt(false, true);
    EXPECT_FALSE(model.empty());
    EXPECT_TRUE(learnt(true, true) == model);
    EXPECT_TRUE(learnt(true, false) != model) << "the other text makes no difference where it is learnt from";
  }
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
  refuses([](auto& o) { o.valid = o.train; }, {"the validation file", "the training file", "the same file"});
  refuses([](auto& o) { o.train = ""; }, {"training file"});
  refuses([](auto& o) { o.tokenizer = "no/such.model"; }, {"no/such.model"});
  refuses([&](auto& o) { o.text.files = {dir / "none.txt"}; }, {"none.txt"});
  write_file(dir / "text.txt", "\n\n");
  refuses([](auto&) {}, {"no text"});
}

/// The content of each file of a directory, by its name.
std::map<std::string, std::string> files_in(const TemporaryDirectory& dir) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    if (entry.is_regular_file()) files[entry.path().filename().string()] = read_file(entry.path().string());
  return files;
}

/// Tries each way in which the names of a command can lead to one file, and expects that nothing is written.
TEST(Prepare, RefusesNamesThatOverwriteOneAnother) {
  const TemporaryDirectory dir;
  const PrepareOptions good = options_in(dir, made_up_text(200000));
  const std::string text = good.text.files[0];
  for (const char* name : {"my.model", "t.tmp", "u.documents.tmp"}) write_file(dir / name, "kept");
  std::filesystem::create_symlink("text.txt", dir / "symbolic.txt");
  std::filesystem::create_hard_link(text, dir / "hard.txt");
  std::filesystem::create_directory_symlink(".", dir / "here");
  const auto before = files_in(dir);
  const auto refuses = [&](auto&& change, const std::vector<std::string>& parts) {
    PrepareOptions options = good;
    change(options);
    SCOPED_TRACE(options.train + " " + options.valid + " " + options.tokenizer);
    expect_error([&] { prepare(options); }, parts);
    expect_error([&] { prepare(options); }, {"are the same file"});
    EXPECT_TRUE(files_in(dir) == before);
  };

  const auto learns = [](auto& o) { o.tokenizer = "sentencepiece"; };
  refuses([&](auto& o) { learns(o), o.train = dir / "c.model"; }, {"the learnt model", "the training file"});
  refuses([&](auto& o) { learns(o), o.valid = dir / "t.train.model"; }, {"the learnt model " + (dir / "t.")});
  refuses([&](auto& o) { learns(o), o.model = text; }, {"the learnt model " + text, "the text " + text});
  refuses([&](auto& o) { learns(o), o.model = o.train + ".tmp"; }, {"the training file's temporary"});
  refuses([&](auto& o) { o.tokenizer = o.train = dir / "my.model"; }, {"the tokenizer model"});
  refuses([&](auto& o) { o.tokenizer = o.valid = dir / "my.model"; }, {"the tokenizer model"});

  refuses([](auto& o) { o.valid = o.train + ".documents"; }, {"t.train.bin.documents.tmp"});
  refuses([](auto& o) { o.train = o.valid + ".documents"; }, {"t.valid.bin.documents.tmp"});
  refuses([](auto& o) { o.valid = o.train + ".tmp"; }, {"the training file's temporary"});
  refuses([&](auto& o) { o.valid = dir / "here/t.train.bin"; }, {"the validation file"});
  refuses([](auto& o) { o.valid = std::filesystem::relative(o.train).string(); }, {"the validation file"});

  for (const char* name : {"text.txt", "./text.txt", "here/text.txt", "symbolic.txt", "hard.txt"}) {
    refuses([&](auto& o) { o.train = dir / name; },
            {"the training file " + (dir / name), "the text " + text});
    refuses([&](auto& o) { o.valid = dir / name; }, {"the validation file " + (dir / name)});
  }
  refuses([&](auto& o) { o.train = dir / "t", o.text.files = {text, dir / "t.tmp"}; }, {"the text"});
  refuses([&](auto& o) { o.valid = dir / "u", o.text.files = {dir / "u.documents.tmp"}; }, {"the text"});
}

/// Relative names that are not there yet are the ones that std::filesystem leaves relative.
TEST(Prepare, RefusesOneNameInTwoSpellings) {
  const TemporaryDirectory dir;
  PrepareOptions options = options_in(dir, made_up_text(20000));
  options.train = "./a";
  options.valid = "a";
  const auto directory = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  expect_error([&] { prepare(options); },
               {"the validation file a and the training file ./a", "the same file"});
  std::filesystem::current_path(directory);
  EXPECT_EQ(files_in(dir).size(), 1U);
}

TEST(Prepare, DoesNotReplaceStandardInput) {
  const TemporaryDirectory dir;
  PrepareOptions options = options_in(dir, made_up_text(20000));
  options.train = options.text.files[0];
  options.text.files = {"-"};
  const auto before = files_in(dir);
  expect_error_in_child(
      options, [&] { ::dup2(::open(options.train.c_str(), O_RDONLY), STDIN_FILENO); },
      [](const Error& e) { return std::string(e.what()).find("the same file") != std::string::npos; });
  EXPECT_TRUE(files_in(dir) == before);
}

/// The training file fits on the disk here, and the validation file, the greater one, does not; all of both
/// is written at the end.
TEST(Prepare, ReplacesNoFileWhenTheDiskIsFull) {
  const TemporaryDirectory dir;
  PrepareOptions options = options_in(dir, made_up_text(300000));
  options.valid_fraction = 0.9;
  options.force = true;
  write_file(options.train, "the old training file");
  const auto before = files_in(dir);
  expect_error_in_child(
      options,
      [] {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{1 << 18, 1 << 18};
        ::setrlimit(RLIMIT_FSIZE, &limit);
      },
      [&](const Error& e) {
        return std::string(e.what()).find(options.valid) != std::string::npos &&
               e.code() == ExitCode::environment;
      });
  EXPECT_TRUE(files_in(dir) == before);
}

TEST(Prepare, ReplacesNoModelWhenTheTextCannotBeSplit) {
  const TemporaryDirectory dir;
  PrepareOptions options = options_in(dir, made_up_text(200000));
  options.text.separator = "file";
  options.seed = 2;
  options.tokenizer = "sentencepiece";
  options.model = dir / "t.model";
  options.force = true;
  write_file(options.model, "the old model");
  const auto before = files_in(dir);
  expect_error([&] { prepare(options); }, {"1 documents", "0 to validation"});
  EXPECT_TRUE(files_in(dir) == before);
  options.valid.clear();
  prepare(options);
  EXPECT_TRUE(read_file(options.model) != "the old model");
}

/// Replaces token files and an equal model, which a repeated call makes again; and, when forced, anything.
TEST(Prepare, ReplacesWhatItMadeAndNothingElse) {
  const TemporaryDirectory dir;
  PrepareOptions good = options_in(dir, made_up_text(20000));
  good.training.vocab = 300;
  const std::string model = dir / "t.train.model";
  const auto replaces = [&](const PrepareOptions& options) {
    prepare(options);
    EXPECT_TRUE(TokenFile::open(options.train).tokenizer() != TokenizerKind::unknown);
    EXPECT_TRUE(TokenFile::open(options.valid).tokenizer() != TokenizerKind::unknown);
  };
  const auto refuses = [&](const PrepareOptions& options, const std::vector<std::string>& parts) {
    const auto before = files_in(dir);
    expect_error([&] { prepare(options); }, parts);
    EXPECT_TRUE(files_in(dir) == before);
  };
  PrepareOptions forced = good;
  forced.force = true;
  for (const std::string& name : {good.train, good.valid}) {
    for (const char* text : {"x", "WEFTTOK", "[run]\nsteps = 3\n"}) {
      write_file(name, text);
      refuses(good, {name + " is there, and is no token file", "--force"});
    }
    replaces(forced);
    write_file(name, "");
    replaces(good);
  }

  good.tokenizer = "sentencepiece";
  replaces(good);
  replaces(good);
  const std::string learnt = read_file(model);
  for (const std::string& text : {learnt.substr(0, learnt.size() - 1), learnt + "x", std::string("x")}) {
    write_file(model, text);
    refuses(good, {model + " is there, and is another tokenizer", "--model", "--force"});
  }
  write_file(model, learnt);
  good.training.vocab = 301;
  refuses(good, {model + " is there, and is another tokenizer"});
  good.force = true;
  replaces(good);
  EXPECT_TRUE(read_file(model) != learnt);
}

TEST(Prepare, SaysThatTheSeparatorStandsNowhere) {
  const TemporaryDirectory dir;
  PrepareOptions options = options_in(dir, "one\n\ntwo\n");
  options.seed = 2;  // the first document falls to training
  options.text.separator = "blankline";
  expect_error([&] { prepare(options); }, {"0 to validation", "the separator stands in none of the texts"});
  options.valid.clear();
  EXPECT_FALSE(prepare(options).separator_found);
  options.text.separator = "blank-line";
  EXPECT_TRUE(prepare(options).separator_found);
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
