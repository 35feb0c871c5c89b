#include "data/tokenizer_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/check.hpp"
#include "base/nesting.hpp"
#include "base/quoted.hpp"
#include "data/json_node.hpp"

namespace weft::data {
namespace {

using detail::Node;
using nlohmann::json;

constexpr std::string_view byte_level_regex =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

class TokenizerJsonReader {
 public:
  TokenizerJsonReader(const json& root, const std::string& name) : root_{&root, name + ": "} {}

  TokenizerJson read() {
    root_.expect_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                       "post_processor", "decoder", "model"});
    root_.expect_unused("version", {"1.0"}, "version \"1.0\"");
    for (const char* key : {"truncation", "padding"}) root_.expect_unused(key, {nullptr}, "null there");
    read_model(root_["model"]);
    read_added_tokens(root_["added_tokens"]);
    if (is_given("normalizer")) read_normalizer(root_["normalizer"]);
    if (is_given("pre_tokenizer")) read_pre_tokenizer(root_["pre_tokenizer"]);
    if (!byte_level_) root_["pre_tokenizer"].refuse("byte-level BPE, with a ByteLevel here");
    read_decoder(root_["decoder"]);
    if (is_given("post_processor")) read_post_processor(root_["post_processor"]);
    return std::move(made_);
  }

 private:
  /// Whether there is a step of this name.
  bool is_given(const std::string& key) const { return root_.has(key) && !root_[key].is_null(); }

  void read_model(const Node& model) {
    // The oldest files of BPE have no type.
    if (model.has("type") || !model.has("merges")) {
      const Node type = model["type"];
      if (type.string() != "BPE") type.refuse("\"BPE\"; a SentencePiece model as its .model file");
    }
    model.expect_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                       "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
    model.expect_unused("dropout", {nullptr, 0.0}, "null, because ids must not be drawn");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      model.expect_unused(key, {nullptr, ""}, "null or \"\" there");
    // These three are for characters that the vocabulary lacks. Here it has all 256.
    if (model.has("unk_token") && !model["unk_token"].is_null()) model["unk_token"].string();
    for (const char* key : {"fuse_unk", "byte_fallback"}) model.flag(key, false);
    made_.ignore_merges = model.flag("ignore_merges", false);
    read_vocab(model["vocab"]);
    read_merges(model["merges"]);
  }

  void read_vocab(const Node& vocab) {
    if (!vocab.value->is_object()) vocab.fail("is not an object");
    made_.ids.reserve(vocab.value->size());
    for (const auto& [text, value] : vocab.value->items()) {
      const std::int32_t id = Node{&value, fmt::format("{} of {}", vocab.where, quoted_text(text))}.id();
      const auto [owner, first] = owners_.emplace(id, text);
      if (!first)
        vocab.fail(fmt::format("gives the id {} to {} and to {}", id, quoted_text(owner->second),
                               quoted_text(text)));
      made_.ids.emplace(text, id);
      made_.vocab = std::max<std::int64_t>(made_.vocab, id + 1);
    }
  }

  /// Merges are "a b" or ["a", "b"].
  void read_merges(const Node& merges) {
    const std::size_t count = merges.array_size();
    made_.merges.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const json& value = (*merges.value)[i];
      std::string left, right;
      if (value.is_string()) {
        const auto& both = value.get_ref<const std::string&>();
        if (both.starts_with("#version")) continue;  // the first line of a merges.txt; the library skips it
        const std::size_t space = both.find(' ');
        if (space == both.npos || both.find(' ', space + 1) != both.npos)
          merges.at(i).fail(fmt::format("is {}, and not two texts with a space between", quoted_text(both)));
        left = both.substr(0, space);
        right = both.substr(space + 1);
      } else {
        const Node pair = merges.at(i);
        if (!value.is_array() || value.size() != 2) pair.fail("is not a pair of texts");
        left = pair.at(0).string();
        right = pair.at(1).string();
      }
      for (const std::string& text : {left, right, left + right})
        if (!made_.ids.contains(text))
          merges.at(i).fail(fmt::format("needs {}, which stands not in model.vocab", quoted_text(text)));
      made_.merges.emplace_back(std::move(left), std::move(right));
    }
  }

  /// An added token has the id that model.vocab gives it, or the next free one. The library goes by that, and
  /// not by the id in the file.
  void read_added_tokens(const Node& tokens) {
    const std::size_t count = tokens.array_size();
    std::int64_t next = static_cast<std::int64_t>(made_.ids.size());
    std::unordered_set<std::string_view> contents;
    for (std::size_t i = 0; i < count; ++i) {
      const Node token = tokens.at(i);
      token.expect_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      TokenizerJson::AddedToken added{token["content"].string(), token["id"].id(),
                                      token["normalized"].boolean()};
      token["special"].boolean();
      if (added.content.empty()) token["content"].fail("is empty");
      for (const char* key : {"single_word", "lstrip", "rstrip"})
        if (token[key].boolean())
          token[key].refuse("added tokens that are found everywhere, and take no white space along");
      if (!contents.emplace(token["content"].string()).second)
        token.fail(fmt::format("is {} once more", quoted_text(added.content)));
      const auto in_vocab = made_.ids.find(added.content);
      const std::int64_t right = in_vocab != made_.ids.end() ? in_vocab->second : next++;
      if (added.id != right)
        token["id"].fail(fmt::format(
            "is {}, and should be {} (model.vocab and the added tokens before it say so)", added.id, right));
      if (in_vocab == made_.ids.end() && owners_.contains(added.id))
        token["id"].fail(fmt::format("is {}, which is that of {} in model.vocab", added.id,
                                     quoted_text(owners_.at(added.id))));
      made_.vocab = std::max<std::int64_t>(made_.vocab, added.id + 1);
      made_.added.push_back(std::move(added));
    }
  }

  /// Reads the steps of a Sequence by `read`. Returns whether `step` is one; `key` is where it has them.
  template <class Read>
  static bool read_sequence(const Node& step, const char* key, const Read& read) {
    if (step["type"].string() != "Sequence") return false;
    step.expect_keys({"type", key});
    const Node parts = step[key];
    for (std::size_t i = 0; i < parts.array_size(); ++i) read(parts.at(i));
    return true;
  }

  void read_normalizer(const Node& normalizer) {
    if (read_sequence(normalizer, "normalizers", [&](const Node& part) { read_normalizer(part); })) return;
    const Node type = normalizer["type"];
    if (type.string() != "NFC") type.refuse("null or \"NFC\" there");
    normalizer.expect_keys({"type"});
    made_.nfc = true;
  }

  void read_pre_tokenizer(const Node& pre) {
    const Node type = pre["type"];
    const std::string& kind = type.string();
    if (byte_level_) type.refuse("nothing behind the ByteLevel");
    if (read_sequence(pre, "pretokenizers", [&](const Node& part) { read_pre_tokenizer(part); })) return;
    if (kind == "ByteLevel") {
      pre.expect_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
      pre.flag("trim_offsets", true);
      if (pre["add_prefix_space"].boolean())
        pre["add_prefix_space"].refuse("false there, because a space that is added is no text");
      if (pre.flag("use_regex", true)) made_.splits.push_back({std::string(byte_level_regex), pre.where});
      byte_level_ = true;
    } else if (kind == "Digits") {
      pre.expect_keys({"type", "individual_digits"});
      made_.splits.push_back({pre["individual_digits"].boolean() ? "\\p{N}" : "\\p{N}+", pre.where});
    } else if (kind == "Split") {
      read_split(pre);
    } else {
      type.refuse("\"ByteLevel\", \"Split\", \"Digits\" and a \"Sequence\" of them");
    }
  }

  void read_split(const Node& split) {
    split.expect_keys({"type", "pattern", "behavior", "invert"});
    const Node pattern = split["pattern"];
    if (!pattern.has("Regex")) pattern.refuse("a {\"Regex\": ...} there");
    pattern.expect_keys({"Regex"});
    if (split["behavior"].string() != "Isolated") split["behavior"].refuse("\"Isolated\" there");
    if (split["invert"].boolean()) split["invert"].refuse("false there");
    made_.splits.push_back({pattern["Regex"].string(), pattern["Regex"].where});
  }

  /// What a decoder says of spaces and offsets is for single texts; ids and bytes do not depend on it.
  void read_decoder(const Node& decoder) {
    if (decoder.is_null()) decoder.refuse("a ByteLevel there");
    const Node type = decoder["type"];
    if (type.string() != "ByteLevel") type.refuse("\"ByteLevel\" there");
    decoder.expect_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  }

  void read_post_processor(const Node& post) {
    if (read_sequence(post, "processors", [&](const Node& part) { read_post_processor(part); })) return;
    const Node type = post["type"];
    const std::string& kind = type.string();
    if (kind == "ByteLevel") {
      post.expect_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});  // offsets, not ids
    } else if (kind == "TemplateProcessing") {
      if (template_) type.refuse("one template");
      template_ = true;
      read_template(post);
    } else {
      type.refuse("\"TemplateProcessing\", \"ByteLevel\" and a \"Sequence\" of them");
    }
  }

  /// Reads which tokens a template puts around a text. Its `pair` is for two texts together, which Weft never
  /// encodes.
  void read_template(const Node& post) {
    post.expect_keys({"type", "single", "pair", "special_tokens"});
    const Node single = post["single"];
    bool text_seen = false;
    for (std::size_t i = 0; i < single.array_size(); ++i) {
      const Node part = single.at(i);
      part.expect_keys({"SpecialToken", "Sequence"});
      if (part.has("Sequence")) {
        if (text_seen) part.refuse("one text in a template");
        text_seen = true;
        continue;
      }
      auto& place = text_seen ? made_.after : made_.before;
      if (place) part.refuse("one token before the text, and one behind it");
      place = special_token(part["SpecialToken"]["id"], post["special_tokens"]);
    }
    if (!text_seen) single.fail("has no text");
  }

  std::string special_token(const Node& token, const Node& tokens) const {
    const std::string& name = token.string();
    const Node meant = tokens[name]["ids"];
    if (meant.array_size() != 1) meant.refuse("one id there");
    const std::int32_t id = meant.at(0).id();
    const auto added =
        std::find_if(made_.added.begin(), made_.added.end(), [&](const auto& one) { return one.id == id; });
    if (added == made_.added.end()) meant.fail("is the id of no added token");
    return added->content;
  }

  static std::string quoted_text(std::string_view text) { return weft::quoted(detail::shortened(text)); }

  Node root_;
  TokenizerJson made_;
  std::unordered_map<std::int32_t, std::string_view> owners_;  ///< the text of each id in model.vocab
  bool byte_level_ = false;                                    ///< the ByteLevel has come
  bool template_ = false;
};

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& name) {
  WEFT_VALIDATE(!nests_deeply(text),
                "{} is no tokenizer.json (its brackets nest too deeply); get the file again", name);
  const json root = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  WEFT_VALIDATE(root.is_object(), "{} is no tokenizer.json (it is {}); get the file again", name,
                root.is_discarded() ? "not JSON" : "not a JSON object");
  return TokenizerJsonReader(root, name).read();
}

std::vector<std::string> byte_alphabet() {
  std::vector<std::string> alphabet(256);
  unsigned other = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    const unsigned c = printable ? byte : other++;
    if (c >= 0x80) {
      alphabet[byte] += static_cast<char>(0xc0 | c >> 6);
      alphabet[byte] += static_cast<char>(0x80 | (c & 0x3f));
    } else {
      alphabet[byte] += static_cast<char>(c);
    }
  }
  return alphabet;
}

}  // namespace weft::data
