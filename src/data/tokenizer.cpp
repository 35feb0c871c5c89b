#include "data/tokenizer.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "data/bpe_tokenizer.hpp"
#include "data/sentencepiece_tokenizer.hpp"
#include "data/text_runs.hpp"

namespace weft::data {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i);
  }
  void encode_append(std::string_view text, std::vector<std::int32_t>& ids) const override {
    ids.reserve(ids.size() + text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }
  std::string_view text_of(std::int32_t id) const override {
    return id == end_of_document() ? std::string_view()
                                   : std::string_view(&bytes_[static_cast<std::size_t>(id)], 1);
  }
  std::int64_t vocab() const override { return 257; }
  std::int32_t end_of_document() const override { return 256; }
  TokenizerKind kind() const override { return TokenizerKind::byte; }
  std::uint64_t hash() const override { return hash_text("byte"); }

 private:
  std::array<char, 256> bytes_;
};

std::string read_model(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr)
    throw Error(exit_code_of_named_file(errno),
                fmt::format("cannot open the tokenizer model {} ({}); give \"byte\" or the path of a "
                            "SentencePiece model or a tokenizer.json",
                            path, std::strerror(errno)));
  std::string bytes;
  std::array<char, 65536> block;
  while (const std::size_t n = std::fread(block.data(), 1, block.size(), file)) bytes.append(block.data(), n);
  const bool whole = std::ferror(file) == 0;
  const int error = errno;
  std::fclose(file);
  if (!whole)
    throw Error(
        exit_code_of_named_file(error),
        fmt::format("cannot read the tokenizer model {} ({}); check the path, or try again when it can "
                    "be read",
                    path, std::strerror(error)));
  return bytes;
}

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  encode_append(text, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    WEFT_VALIDATE(id >= 0 && id < vocab(),
                  "token id {} cannot be decoded (the vocabulary has {}); is this the right tokenizer?", id,
                  vocab());
    text += text_of(id);
  }
  return text;
}

std::unique_ptr<Tokenizer> byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

std::size_t Tokenizer::last_cut(std::string_view text) const {
  return line_cut(text);
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& spec, const std::string& end_of_document) {
  const std::string model = spec == "byte" ? std::string() : read_model(spec);
  // A SentencePiece model begins with the tag of its first field, which is a newline.
  if (model.starts_with('{')) return bpe_tokenizer_of(model, spec, end_of_document);
  WEFT_VALIDATE(
      end_of_document.empty(),
      "--end-of-document has no effect (the tokenizer '{}' has one token that ends documents, and is no "
      "tokenizer.json); leave it out",
      spec);
  return spec == "byte" ? byte_tokenizer() : sentencepiece_of(model, spec);
}

}  // namespace weft::data
