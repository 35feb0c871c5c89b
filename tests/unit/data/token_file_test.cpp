#include "data/token_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/hash.hpp"
#include "data/describe.hpp"
#include "unit/data/text_files.hpp"

namespace weft::data {
namespace {

using test::expect_error;
using test::in_child;
using test::read_file;
using test::TemporaryDirectory;
using test::WideTokenizer;
using test::write_byte_tokens;
using test::write_file;

template <class T>
T number_at(const std::string& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

TEST(TokenFile, KeepsTokensDocumentsAndBytes) {
  const TemporaryDirectory dir;
  for (const std::int64_t vocab : {65536, 65537}) {
    const std::string path = dir / "wide.bin";
    TokenFileWriter writer(path, WideTokenizer(vocab));
    std::vector<std::int32_t> ids(700001);  // more than one piece of the body's checksum
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(i * 7919 % static_cast<std::size_t>(vocab));
    ids.back() = static_cast<std::int32_t>(vocab - 1);
    const std::span<const std::int32_t> all(ids);
    writer.append(all.subspan(0, 10));
    writer.append(all.subspan(10, 5));
    writer.end_document();
    writer.end_document();  // an empty document
    writer.append(all.subspan(15));
    writer.finish();

    const TokenFile file = TokenFile::open(path);
    EXPECT_EQ(file.token_size(), vocab == 65536 ? 2 : 4);
    EXPECT_EQ(file.vocab(), vocab);
    ASSERT_EQ(file.tokens(), static_cast<std::int64_t>(ids.size()));
    std::vector<std::int32_t> read(ids.size());
    file.read(0, file.tokens(), read.data());
    EXPECT_EQ(read, ids);
    ASSERT_EQ(file.documents(), 3);
    EXPECT_EQ(file.document_start(0), 0);
    EXPECT_EQ(file.document_start(1), 15);
    EXPECT_EQ(file.document_start(2), 15);
    EXPECT_EQ(file.document_start(3), file.tokens());
    std::int64_t bytes = 0;
    for (const std::int32_t id : ids) bytes += id % 7;
    EXPECT_EQ(file.text_bytes(), bytes);
    EXPECT_EQ(file.bytes_of(0, file.tokens()), bytes);
    EXPECT_EQ(file.bytes_of(1, 3), ids[1] % 7 + ids[2] % 7 + ids[3] % 7);
    EXPECT_EQ(file.tokenizer_hash(), 99u);
    file.verify();
  }
}

// Reads the file by the table in docs/data.md alone.
TEST(TokenFile, HasTheDocumentedLayout) {
  const TemporaryDirectory dir;
  {
    TokenFileWriter writer(dir / "a.bin", *byte_tokenizer());
    writer.append(std::vector<std::int32_t>{'h', 'i', 256});
    writer.end_document();
    writer.append(std::vector<std::int32_t>{'y', 'o', 256});
    writer.finish();
  }
  const std::string b = read_file(dir / "a.bin");
  EXPECT_EQ(b.substr(0, 8), "WEFTTOK\n");
  EXPECT_EQ(number_at<std::uint32_t>(b, 8), 1u);     // version
  EXPECT_EQ(number_at<std::uint32_t>(b, 12), 2u);    // bytes of a token
  EXPECT_EQ(number_at<std::uint64_t>(b, 16), 257u);  // vocabulary
  EXPECT_EQ(number_at<std::uint64_t>(b, 24), 6u);    // tokens
  EXPECT_EQ(number_at<std::uint64_t>(b, 32), 2u);    // documents
  EXPECT_EQ(number_at<std::uint64_t>(b, 40), 4u);    // text bytes
  EXPECT_EQ(number_at<std::uint32_t>(b, 48), 1u);    // byte tokenizer
  EXPECT_EQ(number_at<std::int32_t>(b, 52), 256);    // end of document
  EXPECT_EQ(number_at<std::uint64_t>(b, 56), hash_text("byte"));
  const auto tokens = number_at<std::uint64_t>(b, 64), starts = number_at<std::uint64_t>(b, 72),
             sizes = number_at<std::uint64_t>(b, 80);
  EXPECT_EQ(tokens, 256u);
  EXPECT_EQ(starts, 256u + 16);
  EXPECT_EQ(sizes, 256u + 16 + 16);
  EXPECT_EQ(number_at<std::uint64_t>(b, 88), b.size());
  EXPECT_EQ(b.size(), sizes + 257 * 2);
  EXPECT_EQ(number_at<std::uint64_t>(b, 96), hash_bytes(b.data() + 256, b.size() - 256));
  EXPECT_EQ(number_at<std::uint64_t>(b, 248), hash_bytes(b.data(), 248));
  const std::uint16_t expected[] = {'h', 'i', 256, 'y', 'o', 256};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(number_at<std::uint16_t>(b, tokens + 2 * i), expected[i]);
  EXPECT_EQ(number_at<std::uint64_t>(b, starts), 0u);
  EXPECT_EQ(number_at<std::uint64_t>(b, starts + 8), 3u);
  EXPECT_EQ(number_at<std::uint16_t>(b, sizes + 2 * 65), 1u);
  EXPECT_EQ(number_at<std::uint16_t>(b, sizes + 2 * 256), 0u);
}

/// Hosts that were made from one image have local files with equal inodes, sizes and times.
TEST(TokenFile, IdentityOnALocalFileSystemHasTheHost) {
  const TemporaryDirectory dir("/dev/shm");
  write_byte_tokens(dir / "tokens.bin", std::vector<std::int32_t>(100, 65));
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  const std::string identity = TokenFile::open(dir / "tokens.bin").identity();
  EXPECT_TRUE(identity.starts_with(std::string(host.data()) + '-')) << identity;
}

TEST(TokenFile, RefusesWhatIsNotOne) {
  const TemporaryDirectory dir;
  const std::string good_path = dir / "good.bin", path = dir / "bad.bin";
  std::vector<std::int32_t> ids(1000);
  std::iota(ids.begin(), ids.end(), 0);
  for (auto& id : ids) id %= 257;
  write_byte_tokens(good_path, ids);
  const std::string good = read_file(good_path);
  const auto open = [&] { TokenFile::open(path); };

  expect_error(open, {"cannot open", path, "(No such file or directory); make it with `weft data tokenize`"});
  const std::string here = std::filesystem::current_path().string();
  expect_error([] { TokenFile::open("none/such.bin"); },
               {"none/such.bin (No such file or directory, looked for from " + here + "); make it"});
  expect_error([&] { TokenFile::open(good_path + "/x"); }, {"(Not a directory); check the path and who"});
  expect_error([&] { TokenFile::open(dir.path()); }, {"not a token file", "not a regular file"});
  write_file(path, "");
  expect_error(open, {path, "not a token file", "empty"});
  write_file(path, "It was a dark and stormy night.");
  expect_error(open, {path, "not a token file"});
  write_file(path, std::string(4096, '\0'));
  expect_error(open, {path, "not a token file"});
  write_file(path, good.substr(0, 100));
  expect_error(open, {path, "truncated", "100 bytes"});
  write_file(path, good.substr(0, good.size() - 1));
  expect_error(open, {path, "truncated", std::to_string(good.size() - 1), std::to_string(good.size())});
  write_file(path, good + "x");
  expect_error(open, {path, "too long"});

  std::string other = good;
  other[8] = 2;
  write_file(path, other);
  expect_error(open, {path, "version 2", "reads 1"});
  other = good;
  other[24] = static_cast<char>(other[24] + 1);  // one token more
  write_file(path, other);
  expect_error(open, {path, "header", "damaged"});
}

TEST(TokenFile, FindsDamageInItsBody) {
  const TemporaryDirectory dir;
  const std::string path = dir / "a.bin";
  write_byte_tokens(path, std::vector<std::int32_t>(1000, 65));
  std::string bytes = read_file(path);
  bytes[256 + 2 * 500] = 66;  // another token, a legal one
  write_file(path, bytes);
  expect_error([&] { describe(path); }, {path, "damaged", "body"});
  bytes[256 + 2 * 500 + 1] = 2;  // id 578
  write_file(path, bytes);
  const TokenFile file = TokenFile::open(path);
  std::int32_t ids[1000];
  file.read(0, 500, ids);
  expect_error([&] { file.read(400, 200, ids); }, {path, "578", "257"});
  expect_error([&] { (void)file.bytes_of(0, 1000); }, {path, "578"});
  expect_error([&] { file.read(990, 11, ids); }, {"11 tokens from 990", "1000"});
}

// Anyone can compute the checksum, so what it covers may be wrong all the same.
TEST(TokenFile, RefusesAHeaderThatLies) {
  const TemporaryDirectory dir;
  const std::string path = dir / "a.bin";
  write_byte_tokens(path, std::vector<std::int32_t>(1000, 65));
  const std::string good = read_file(path);
  for (const auto& [field, value] : {std::pair<std::size_t, std::uint64_t>{24, 1001},
                                     {24, std::uint64_t{1} << 63},
                                     {24, ~std::uint64_t{0}},
                                     {32, 1000},
                                     {32, (std::uint64_t{1} << 61) + 1},
                                     {16, 258},
                                     {16, std::uint64_t{1} << 31},
                                     {64, 128},
                                     {72, 1 << 20},
                                     {80, std::uint64_t{1} << 40},
                                     {8, 1 | std::uint64_t{3} << 32},        // version 1, tokens of 3 bytes
                                     {48, 1 | std::uint64_t{300} << 32}}) {  // the end of document is 300
    std::string bad = good;
    std::memcpy(bad.data() + field, &value, sizeof value);
    const std::uint64_t hash = hash_bytes(bad.data(), 248);
    std::memcpy(bad.data() + 248, &hash, sizeof hash);
    write_file(path, bad);
    expect_error([&] { TokenFile::open(path); }, {path, "header", "contradicts itself"});
  }
}

TEST(TokenFile, MayStandInMemory) {
  const TemporaryDirectory dir;
  write_byte_tokens(dir / "a.bin", {1, 2, 3});
  const std::string bytes = read_file(dir / "a.bin");
  const TokenFile file = TokenFile::in_memory("a", std::as_bytes(std::span(bytes)));
  file.verify();
  std::int32_t ids[3];
  file.read(0, 3, ids);
  EXPECT_EQ(ids[2], 3);
  expect_error([&] { TokenFile::in_memory("b", {}); }, {"b is not a token file"});
}

TEST(TokenFile, SaysWhenItDoesNotFitTheModel) {
  const TemporaryDirectory dir;
  write_byte_tokens(dir / "a.bin", std::vector<std::int32_t>(101, 65));
  const TokenFile file = TokenFile::open(dir / "a.bin");
  check_vocabulary(file, 257);
  expect_error([&] { check_vocabulary(file, 256); }, {"a.bin", "257", "model.vocab", "256"});
  EXPECT_THROW(check_tokenizer(file, WideTokenizer(257)), Error);
  check_tokenizer(file, *byte_tokenizer());
}

TEST(TokenFileWriter, RefusesIdsOutsideOfTheVocabulary) {
  const TemporaryDirectory dir;
  const std::string path = dir / "a.bin";
  {
    TokenFileWriter writer(path, *byte_tokenizer());
    expect_error([&] { writer.append(std::vector<std::int32_t>{1, 257}); }, {path, "257"});
    expect_error([&] { writer.append(std::vector<std::int32_t>{-1}); }, {path, "-1"});
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

/// The pages of a file that was cut are gone, and touching one raises SIGBUS.
TEST(TokenFileDeathTest, AFileThatIsCutWhileItIsReadIsNamed) {
  const TemporaryDirectory dir;
  const std::string path = dir / "cut.bin";
  write_byte_tokens(path, std::vector<std::int32_t>(500000, 65));
  const auto read_the_end = [&] {
    const TokenFile file = TokenFile::open(path);
    std::filesystem::resize_file(path, 4096);
    std::int32_t token = 0;
    file.read(file.tokens() - 1, 1, &token);
  };
  EXPECT_EXIT(read_the_end(), testing::ExitedWithCode(6),
              "weft: error: .*cut.bin: a part of the file cannot be read any more .*start again");
}

/// The size of the resident pages of files, in KiB.
std::int64_t mapped_kib() {
  const std::string status = read_file("/proc/self/status");
  return std::stoll(status.substr(status.find("RssFile:") + 8));
}

/// Otherwise the page cache of the whole file would count as memory of each rank that reads it.
TEST(TokenFile, ReadPagesDoNotStayResident) {
  const TemporaryDirectory dir;
  const std::string path = dir / "large.bin";
  TokenFileWriter writer(path, *byte_tokenizer());
  writer.append(std::vector<std::int32_t>(8 << 20, 65));
  writer.finish();
  const TokenFile file = TokenFile::open(path);
  std::vector<std::int32_t> ids(300);
  file.read(0, 300, ids.data());
  const std::int64_t before = mapped_kib();
  std::int64_t reads = 0;
  for (std::int64_t at = 0; at + 300 <= file.tokens(); at += 20'000, ++reads) file.read(at, 300, ids.data());
  ASSERT_GT(reads, 400);
  EXPECT_LT(mapped_kib() - before, 1024) << "of a file of " << file.bytes() / 1024 << " KiB";
  file.verify();
  EXPECT_LT(mapped_kib() - before, 1024) << "after all of it was read";
}

/// A SIGBUS outside of token files goes to the handler that was there before.
TEST(TokenFileDeathTest, ASignalElsewhereIsNotTaken) {
  const TemporaryDirectory dir;
  write_byte_tokens(dir / "a.bin", {1, 2, 3});
  const auto raise_it = [&] {
    ::signal(SIGBUS, [](int) { ::_exit(9); });
    const TokenFile file = TokenFile::open(dir / "a.bin");
    ::raise(SIGBUS);
    ::raise(SIGBUS);
  };
  EXPECT_EXIT(raise_it(), testing::ExitedWithCode(9), "");
}

TEST(TokenFileWriter, LeavesTheOldFileWhenItIsKilled) {
  const TemporaryDirectory dir;
  const std::string path = dir / "a.bin";
  write_byte_tokens(path, {1, 2, 3});
  const std::string old = read_file(path);
  const int status = in_child([&] {
    TokenFileWriter writer(path, *byte_tokenizer());
    writer.append(std::vector<std::int32_t>(2000000, 65));
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_file(path), old);
  write_byte_tokens(path, {4, 5});  // what the killed process left is no obstacle
  EXPECT_EQ(TokenFile::open(path).tokens(), 2);
  std::filesystem::remove(path);
  const int again = in_child([&] {
    TokenFileWriter writer(path, *byte_tokenizer());
    writer.append(std::vector<std::int32_t>(2000000, 65));
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(again));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TokenFileWriter, LeavesNothingWhenTheDiskIsFull) {
  const TemporaryDirectory dir;
  const std::string path = dir / "a.bin";
  const int status = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};  // writing past a megabyte fails as on a full disk
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      TokenFileWriter writer(path, *byte_tokenizer());
      writer.append(std::vector<std::int32_t>(2000000, 65));
      writer.finish();
    } catch (const Error& e) {
      const bool named =
          e.code() == ExitCode::environment && std::string(e.what()).find(path) != std::string::npos;
      ::_exit(named ? 7 : 8);
    }
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace weft::data
