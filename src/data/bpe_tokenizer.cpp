#include "data/bpe_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/quoted.hpp"
#include "data/added_tokens.hpp"
#include "data/bpe.hpp"
#include "data/nfc.hpp"
#include "data/regex.hpp"
#include "data/text_runs.hpp"
#include "data/tokenizer_json.hpp"
#include "data/word_cache.hpp"

namespace weft::data {
namespace {

/// What tokenizers in use call the token that ends a document.
constexpr std::array<std::string_view, 5> usual_ends{"<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>",
                                                     "<\xef\xbd\x9c"
                                                     "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"};

/// Bytes of the valid UTF-8 that `text` begins with. Sets `plain` when they are ASCII.
std::size_t utf8_prefix(std::string_view text, bool& plain) {
  constexpr std::uint64_t high_bits = 0x8080808080808080;
  plain = true;
  std::size_t n = 0;
  while (n < text.size()) {
    std::uint64_t eight = high_bits;
    if (n + sizeof eight <= text.size()) std::memcpy(&eight, text.data() + n, sizeof eight);
    if ((eight & high_bits) == 0) {
      n += sizeof eight;
      continue;
    }
    const std::size_t length = utf8_length(text.substr(n));
    if (length == 0) break;
    plain = plain && length == 1;
    n += length;
  }
  return n;
}

/// The bytes of a text of model.vocab. What has a character that is no byte stands for itself.
std::string bytes_of_text(const std::string& text, const std::unordered_map<std::string, char>& bytes) {
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(std::string_view(text).substr(at)));
    const auto found = bytes.find(text.substr(at, length));
    if (found == bytes.end()) return text;
    made += found->second;
    at += length;
  }
  return made;
}

struct ByteTextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return hash_text(text); }
};

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(TokenizerJson file, const std::string& name, const std::string& end_of_document,
               std::uint64_t hash);

  void encode_append(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::size_t last_cut(std::string_view text) const override;
  std::string_view text_of(std::int32_t id) const override { return texts_[static_cast<std::size_t>(id)]; }
  std::int64_t vocab() const override { return static_cast<std::int64_t>(texts_.size()); }
  std::int32_t begin_of_document() const override { return begin_; }
  std::int32_t end_of_document() const override { return end_; }
  bool normalizes() const override { return nfc_; }
  TokenizerKind kind() const override { return TokenizerKind::bpe; }
  std::uint64_t hash() const override { return hash_; }

 private:
  void read_texts(const TokenizerJson& file);
  void read_merges(const TokenizerJson& file);
  void read_added(const TokenizerJson& file);
  void find_ends(const TokenizerJson& file, const std::string& name, const std::string& end_of_document);
  bool words_end_with_lines() const;

  template <class EncodeRest>
  static void encode_around(const AddedTokens& tokens, std::string_view text, std::vector<std::int32_t>& ids,
                            EncodeRest&& encode_rest);
  void encode_bytes(std::string_view text, std::vector<std::int32_t>& ids) const;
  void encode_utf8(std::string_view text, std::vector<std::int32_t>& ids) const;
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const;
  template <class Use>
  void cut_words(std::string_view text, std::size_t split, Use&& use) const;

  std::uint64_t hash_;
  std::vector<std::string> texts_;  ///< bytes of each id
  std::int32_t begin_ = -1, end_ = -1;
  bool nfc_;
  bool cut_at_lines_ = false;  ///< no token has a letter or digit with an end of line behind it
  AddedTokens added_, normalized_added_;
  /// The ids of whole words; empty unless the file says that they come before merges.
  std::unordered_map<std::string, std::int32_t, ByteTextHash, std::equal_to<>> whole_words_;

  mutable std::mutex mutex_;  ///< guards what follows
  mutable Bpe bpe_;
  mutable std::vector<Regex> splits_;
  mutable Regex letter_or_digit_;
  mutable WordCache words_;
};

std::array<std::int32_t, 256> byte_ids(const TokenizerJson& file, const std::string& name) {
  const std::vector<std::string> alphabet = byte_alphabet();
  std::array<std::int32_t, 256> ids{};
  for (std::size_t byte = 0; byte < alphabet.size(); ++byte) {
    const auto found = file.ids.find(alphabet[byte]);
    WEFT_VALIDATE(
        found != file.ids.end(),
        "{}: model.vocab has no \"{}\", which stands for byte {} (it is no byte-level vocabulary, and "
        "would lose text); use another tokenizer",
        name, alphabet[byte], byte);
    ids[byte] = found->second;
  }
  return ids;
}

BpeTokenizer::BpeTokenizer(TokenizerJson file, const std::string& name, const std::string& end_of_document,
                           std::uint64_t hash)
    : hash_(hash), nfc_(file.nfc), bpe_(byte_ids(file, name)), letter_or_digit_("[\\p{L}\\p{N}]", name) {
  WEFT_VALIDATE(!nfc_ || has_nfc(),
                "{}: its normalizer is NFC (this Weft was built without utf8proc); install utf8proc with its "
                "header (Debian: libutf8proc-dev), and configure and build Weft again",
                name);
  for (const TokenizerJson::Split& split : file.splits) splits_.emplace_back(split.pattern, split.where);
  read_texts(file);
  read_merges(file);
  read_added(file);
  find_ends(file, name, end_of_document);
  const auto has_line_end = [](const auto& added) {
    return added.content.find_first_of("\r\n", 1) != std::string::npos;
  };
  cut_at_lines_ = std::none_of(file.added.begin(), file.added.end(), has_line_end) && words_end_with_lines();
}

void BpeTokenizer::read_texts(const TokenizerJson& file) {
  const std::vector<std::string> alphabet = byte_alphabet();
  std::unordered_map<std::string, char> bytes;
  for (std::size_t byte = 0; byte < alphabet.size(); ++byte)
    bytes.emplace(alphabet[byte], static_cast<char>(byte));
  texts_.resize(static_cast<std::size_t>(file.vocab));
  for (const auto& [text, id] : file.ids) texts_[static_cast<std::size_t>(id)] = bytes_of_text(text, bytes);
  if (file.ignore_merges)
    for (const auto& [text, id] : file.ids) whole_words_.emplace(texts_[static_cast<std::size_t>(id)], id);
  for (const auto& added : file.added) texts_[static_cast<std::size_t>(added.id)] = added.content;
}

void BpeTokenizer::read_merges(const TokenizerJson& file) {
  std::int32_t rank = 0;
  for (const auto& [left, right] : file.merges)
    bpe_.add_merge(file.ids.at(left), file.ids.at(right), rank++, file.ids.at(left + right));
}

void BpeTokenizer::read_added(const TokenizerJson& file) {
  for (const auto& added : file.added)
    if (added.normalized)
      normalized_added_.add(nfc_ ? to_nfc(added.content) : added.content, added.id);
    else
      added_.add(added.content, added.id);
  added_.sort();
  normalized_added_.sort();
}

void BpeTokenizer::find_ends(const TokenizerJson& file, const std::string& name,
                             const std::string& end_of_document) {
  const auto id_of = [&](std::string_view content) {
    const auto found = std::find_if(file.added.begin(), file.added.end(),
                                    [&](const auto& added) { return added.content == content; });
    return found == file.added.end() ? -1 : found->id;
  };
  std::vector<std::string_view> known;
  for (const std::string_view usual : usual_ends)
    if (id_of(usual) >= 0) known.push_back(usual);
  if (!end_of_document.empty()) {
    end_ = id_of(end_of_document);
    WEFT_VALIDATE(end_ >= 0, "--end-of-document {}: {} has no such added token; name one of its added_tokens",
                  weft::quoted(end_of_document), name);
  } else if (file.after) {
    end_ = id_of(*file.after);
  } else {
    WEFT_VALIDATE(
        known.size() == 1,
        "{} does not say which token ends a document ({}); name one of its added_tokens with "
        "--end-of-document",
        name,
        known.empty() ? "none has a usual name" : fmt::format("both {} and {} could", known[0], known[1]));
    end_ = id_of(known[0]);
  }
  // Where one token does both, the one that ended the document before begins the next one.
  if (file.before && id_of(*file.before) != end_) begin_ = id_of(*file.before);
  for (const std::int32_t id : {begin_, end_})
    if (id >= 0) texts_[static_cast<std::size_t>(id)].clear();
}

void BpeTokenizer::encode_append(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::lock_guard lock(mutex_);
  encode_around(added_, text, ids, [&](std::string_view rest) { encode_bytes(rest, ids); });
}

/// Appends the ids of the added tokens in `text`, and lets `encode_rest` append those of what is between.
template <class EncodeRest>
void BpeTokenizer::encode_around(const AddedTokens& tokens, std::string_view text,
                                 std::vector<std::int32_t>& ids, EncodeRest&& encode_rest) {
  while (!text.empty()) {
    const AddedTokens::Match match = tokens.find(text);
    const std::string_view rest = text.substr(0, match.size > 0 ? match.begin : text.size());
    if (!rest.empty()) encode_rest(rest);
    if (match.size > 0) ids.push_back(match.id);
    text.remove_prefix(rest.size() + match.size);
  }
}

/// Encodes text in which bytes may stand that are not UTF-8.
void BpeTokenizer::encode_bytes(std::string_view text, std::vector<std::int32_t>& ids) const {
  while (!text.empty()) {
    bool plain = true;
    const std::size_t valid = utf8_prefix(text, plain);
    const std::string_view run = text.substr(0, valid);
    const std::string normal = nfc_ && !plain ? to_nfc(run) : std::string();
    encode_around(normalized_added_, nfc_ && !plain ? std::string_view(normal) : run, ids,
                  [&](std::string_view rest) { encode_utf8(rest, ids); });
    text.remove_prefix(valid);
    if (text.empty()) return;
    ids.push_back(bpe_.byte_id(static_cast<unsigned char>(text[0])));
    text.remove_prefix(1);
  }
}

void BpeTokenizer::encode_utf8(std::string_view text, std::vector<std::int32_t>& ids) const {
  cut_words(text, 0, [&](std::string_view word) { encode_word(word, ids); });
}

void BpeTokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (words_.append(word, ids)) return;
  const std::size_t before = ids.size();
  const auto whole = whole_words_.find(word);
  if (whole != whole_words_.end())
    ids.push_back(whole->second);
  else
    bpe_.encode(word, ids);
  words_.keep(word, std::span(ids).subspan(before));
}

/// Cuts UTF-8 into words by the splits from number `split` on, and calls `use` with each.
template <class Use>
void BpeTokenizer::cut_words(std::string_view text, std::size_t split, Use&& use) const {
  if (split == splits_.size()) return use(text);
  std::size_t at = 0;
  for (Regex::Match match{}; at < text.size() && splits_[split].find(text, at, match); at = match.end) {
    if (match.begin > at) cut_words(text.substr(at, match.begin - at), split + 1, use);
    cut_words(text.substr(match.begin, match.end - match.begin), split + 1, use);
  }
  if (at < text.size()) cut_words(text.substr(at), split + 1, use);
}

/// Whether text may be cut between a letter or digit and an end of line: tried with what the patterns in use
/// treat apart.
bool BpeTokenizer::words_end_with_lines() const {
  const auto words = [&](std::string_view text) {
    std::vector<std::string> made;
    cut_words(text, 0, [&](std::string_view word) { made.emplace_back(word); });
    return made;
  };
  for (const std::string line : {"a", "Z9", "don't", " \xe4\xb8\xad", ".\xc3\xa9", "12345"})
    for (const std::string next :
         {"\n", "\n\n", "\nb", "\n\n  b", "\n b", "\r\n", "\r\n\r\nB", "\n9", "\n .", "\n'll"}) {
      std::vector<std::string> apart = words(line);
      for (std::string& word : words(next)) apart.push_back(std::move(word));
      if (words(line + next) != apart) return false;
    }
  return true;
}

std::size_t BpeTokenizer::last_cut(std::string_view text) const {
  constexpr std::size_t window = std::size_t{2} << 20;  // what is before it was looked at by earlier calls
  constexpr std::size_t longest = std::size_t{16} << 20;
  const std::lock_guard lock(mutex_);
  const std::size_t first = text.size() - std::min(text.size(), window);
  std::size_t end = cut_at_lines_ ? text.find_last_of("\r\n") : text.npos;
  for (; end != text.npos && end > first; end = text.find_last_of("\r\n", end - 1)) {
    std::size_t begin = end - 1;
    while (begin > first && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    const std::string_view last = text.substr(begin, end - begin);
    Regex::Match match{};
    if (utf8_length(last) == last.size() && letter_or_digit_.find(last, 0, match)) return end;
  }
  return text.size() < longest ? 0 : utf8_cut(text, text.size() - 4);
}

}  // namespace

std::unique_ptr<Tokenizer> bpe_tokenizer_of(std::string_view json, const std::string& name,
                                            const std::string& end_of_document) {
  return std::make_unique<BpeTokenizer>(parse_tokenizer_json(json, name), name, end_of_document,
                                        hash_text(json));
}

}  // namespace weft::data
