// The files and texts that the data tests share. Compare long texts by ==: to print how they differ,
// GoogleTest would take all memory.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "data/token_file_writer.hpp"
#include "data/tokenizer.hpp"
#include "support/temporary_directory.hpp"

namespace weft::test {

inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Texts at which a tokenizer could stumble.
inline std::vector<std::string> hard_texts() {
  std::string all_bytes;
  for (int i = 0; i < 256; ++i) all_bytes += static_cast<char>(i);
  return {"",
          " ",
          "\n",
          "\n\n\n",
          "a\n",
          "  leading",
          "trailing  ",
          "tab\tand\r\nreturn",
          "many     spaces   between \n   and after   \n",
          all_bytes,
          all_bytes + all_bytes,
          std::string("nul\0inside", 10),
          "na\xc3\xafve caf\xc3\xa9 \xe2\x80\x94 \xe6\xbc\xa2\xe5\xad\x97 "
          "\xf0\x9f\x98\x80\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80",
          "combining e\xcc\x81, full width \xef\xbc\xa1, ligature \xef\xac\x81, no-break\xc2\xa0space, "
          "replacement \xef\xbf\xbd",
          "the space mark \xe2\x96\x81 and its parts \xe2\x96 \x96\x81 \xe2",
          "cut \xe6\xbc",
          "overlong \xc0\xaf \xe0\x80\xaf surrogate \xed\xa0\x80 beyond \xf4\x90\x80\x80",
          "<unk> </s> <s> <0x0A> \xe2\x81\x87 \xe2\x96\x85"};
}

/// A made-up text of words with the frequencies of a language (few of them often, many seldom), in lines and
/// paragraphs.
inline std::string made_up_text(std::size_t bytes, std::uint64_t seed = 5) {
  const RandomStream random(seed, "test.text");
  std::string text;
  for (std::uint64_t i = 0; text.size() < bytes; ++i) {
    const double u = random.uniform(2 * i);
    auto word = static_cast<std::uint64_t>(1.0 / (u * u * 0.9 + 1e-6));
    do {
      text += "etaoinshrdlucmfw"[word % 16];
      text += "aeiou"[word % 5];
      word /= 16;
    } while (word > 0);
    const auto mark = random.bits(2 * i + 1) % 40;
    text += mark == 0 ? "\n\n" : mark < 4 ? "\n" : mark == 4 ? ", " : mark == 5 ? "  " : " ";
  }
  return text;
}

/// Writes a token file of one document with these byte tokens.
inline void write_byte_tokens(const std::string& path, const std::vector<std::int32_t>& ids) {
  data::TokenFileWriter writer(path, *data::byte_tokenizer());
  writer.append(ids);
  writer.finish();
}

/// A tokenizer with more ids than 16 bits hold; id i stands for i % longest letters.
class WideTokenizer final : public data::Tokenizer {
 public:
  explicit WideTokenizer(std::int64_t vocab, std::uint64_t hash = 99, std::int32_t end_of_document = 0,
                         std::int32_t longest = 7)
      : vocab_(vocab), hash_(hash), end_of_document_(end_of_document), longest_(longest) {}
  void encode_append(std::string_view, std::vector<std::int32_t>&) const override {}
  std::string_view text_of(std::int32_t id) const override {
    return std::string_view("abcdefg").substr(0, static_cast<std::size_t>(id % longest_));
  }
  std::int64_t vocab() const override { return vocab_; }
  std::int32_t end_of_document() const override { return end_of_document_; }
  data::TokenizerKind kind() const override { return data::TokenizerKind::unknown; }
  std::uint64_t hash() const override { return hash_; }

 private:
  std::int64_t vocab_;
  std::uint64_t hash_;
  std::int32_t end_of_document_, longest_;
};

/// Runs `body` in a child process and returns how it ended.
template <class Body>
int in_child(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// Expects an Error(bad_input) of one line that contains each of `parts`.
template <class Call>
void expect_error(Call&& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    const std::string line = e.what();
    EXPECT_EQ(e.code(), ExitCode::bad_input) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    for (const std::string& part : parts)
      EXPECT_NE(line.find(part), std::string::npos) << line << "\nlacks " << part;
  }
}

}  // namespace weft::test
