#include "data/tokenizer.hpp"

#include <array>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "data/sentencepiece_tokenizer.hpp"

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

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& spec) {
  return spec == "byte" ? byte_tokenizer() : open_sentencepiece(spec);
}

}  // namespace weft::data
