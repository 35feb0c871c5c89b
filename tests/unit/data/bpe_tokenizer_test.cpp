// Byte-level BPE from tokenizer.json. tests/golden/make_tokenizers.py made the files and the ids.
#include "data/bpe_tokenizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/describe.hpp"
#include "data/nfc.hpp"
#include "data/prepare.hpp"
#include "data/regex_syntax.hpp"
#include "data/tokenizer_json.hpp"
#include "unit/data/text_files.hpp"

namespace weft::data {
namespace {

using nlohmann::json;
using test::expect_error;
using test::hard_texts;
using test::read_file;
using test::TemporaryDirectory;
using test::write_file;
using Ids = std::vector<std::int32_t>;

std::string golden(const std::string& name) {
  return std::string(WEFT_SOURCE_DIR) + "/tests/golden/tokenizers/" + name + ".json";
}

/// A whole file with a vocabulary of 256 bytes, three merges and two added tokens. No merges make "abc".
json small_file() {
  json file = json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [
      {"id": 261, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false, "special": true},
      {"id": 262, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false, "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Digits", "individual_digits": true},
      {"type": "Split", "pattern": {"Regex": "\\s?\\p{L}+|\\s+"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [261], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
      "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": true,
      "vocab": {}, "merges": [["a", "b"], ["\u0120", "a"], ["b", "c"]]}})");
  json& vocab = file["model"]["vocab"];
  for (const std::string& c : byte_alphabet()) vocab.emplace(c, vocab.size());
  for (const char* text : {"ab", "\xc4\xa0\x61", "bc", "abc", "abcd"}) vocab.emplace(text, vocab.size());
  return file;
}

std::unique_ptr<Tokenizer> opened(const json& file, const std::string& end_of_document = {}) {
  return bpe_tokenizer_of(file.dump(), "t.json", end_of_document);
}

#ifdef WEFT_HAS_PCRE2

/// The tokenizers of tests/golden/tokenizers that this build can open.
std::vector<std::string> golden_names() {
  std::vector<std::string> names{"llama3", "gpt2", "smollm", "nemo", "deepseek"};
  if (has_nfc()) names.emplace_back("qwen");
  return names;
}

std::string without(std::string text, const std::string& part) {
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos;) text.erase(at, part.size());
  return text;
}

TEST(BpeTokenizer, HasTheIdsOfTheLibrary) {
  const json ids = json::parse(read_file(golden("ids")));
  int compared = 0;
  for (const std::string& name : golden_names()) {
    const auto tokenizer = open_tokenizer(golden(name));
    for (std::size_t i = 0; i < ids["texts"].size(); ++i, ++compared) {
      const auto text = ids["texts"][i].get<std::string>();
      const Ids got = tokenizer->encode(text);
      EXPECT_EQ(got, ids["ids"][name][i].get<Ids>()) << name << " " << ids["texts"][i].dump(-1, ' ', true);
      std::string kept = tokenizer->normalizes() ? to_nfc(text) : text;
      for (const char* around : {"<|begin_of_text|>", "<|end_of_text|>", "<|endoftext|>", "<s>", "</s>",
                                 "<\xef\xbd\x9c"
                                 "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"})
        if (const Ids id = tokenizer->encode(around); id.size() == 1 && tokenizer->text_of(id[0]).empty())
          kept = without(kept, around);
      EXPECT_EQ(tokenizer->decode(got), kept) << name;
      EXPECT_EQ(tokenizer->encode(text), got) << "words that are kept have other ids than new ones";
    }
  }
  EXPECT_GT(compared, 700);
}

TEST(BpeTokenizer, KeepsBytesThatAreNoText) {
  for (const std::string& name : golden_names()) {
    const auto tokenizer = open_tokenizer(golden(name));
    for (const std::string& text : hard_texts()) {
      if (tokenizer->normalizes() || (name == "nemo" && text.find("</s>") != text.npos)) continue;
      EXPECT_TRUE(tokenizer->decode(tokenizer->encode(text)) == text) << name << " " << text;
    }
    const Ids bytes = tokenizer->encode("\xff\xc3");
    EXPECT_EQ(bytes.size(), 2u);
    EXPECT_EQ(tokenizer->decode(bytes), "\xff\xc3");
  }
}

TEST(BpeTokenizer, MergesByRankAndFindsWholeWords) {
  json file = small_file();
  EXPECT_EQ(opened(file)->encode("abc"), (Ids{259}));
  EXPECT_EQ(opened(file)->encode("abcd"), (Ids{260}));
  file["model"]["ignore_merges"] = false;
  const auto id = [&](const char* text) { return file["model"]["vocab"][text].get<std::int32_t>(); };
  EXPECT_EQ(opened(file)->encode("abcd"), (Ids{256, id("c"), id("d")}));
  EXPECT_EQ(opened(file)->encode("ab bc"), (Ids{256, id("\xc4\xa0"), 258})) << "the space and b are no pair";
  EXPECT_EQ(opened(file)->encode("ababa"), (Ids{256, 256, id("a")}));
  file["model"]["merges"] = {"b c", "#version: 0.2", "a b"};
  EXPECT_EQ(opened(file)->encode("abcd"), (Ids{id("a"), 258, id("d")}));
  // In Oniguruma, $ matches at the end of each line, and not at the end of the text alone.
  file["pre_tokenizer"]["pretokenizers"][1]["pattern"]["Regex"] = "\\p{L}$";
  EXPECT_EQ(opened(file)->encode("ab\nab"), (Ids{id("a"), id("b"), 10, id("a"), id("b")}));
}

/// An encoder whose steps grow with the square of a word's length would not end this test.
TEST(BpeTokenizer, TakesLongWords) {
  const auto tokenizer = open_tokenizer(golden("gpt2"));
  std::string text(std::size_t{1} << 18, 'a');
  text += std::string(std::size_t{1} << 18, ' ') + "x";
  EXPECT_TRUE(tokenizer->decode(tokenizer->encode(text)) == text);
}

TEST(BpeTokenizer, ChoosesWhatEndsADocument) {
  json file = small_file();
  EXPECT_EQ(opened(file)->end_of_document(), 262);
  EXPECT_EQ(opened(file)->begin_of_document(), 261);
  EXPECT_EQ(opened(file)->text_of(261), "");
  EXPECT_EQ(opened(file, "<s>")->end_of_document(), 261);
  EXPECT_EQ(opened(file, "<s>")->begin_of_document(), -1) << "one token is put between two documents";
  expect_error([&] { opened(file, "<x>"); }, {"--end-of-document", "\"<x>\"", "t.json", "added_tokens"});
  file["added_tokens"][0]["content"] = "<|endoftext|>";
  file["post_processor"] = nullptr;
  EXPECT_EQ(opened(file, "</s>")->end_of_document(), 262);
  EXPECT_EQ(opened(file, "</s>")->begin_of_document(), -1);
  expect_error([&] { opened(file); }, {"t.json", "<|endoftext|>", "</s>", "--end-of-document"});
  file["added_tokens"][0]["content"] = "<x>";
  file["added_tokens"][1]["content"] = "<y>";
  expect_error([&] { opened(file); }, {"t.json", "none has a usual name", "--end-of-document"});
  const TemporaryDirectory dir;
  expect_error([&] { (void)open_tokenizer("byte", "</s>"); }, {"--end-of-document has no effect", "'byte'"});
}

/// Each value of the file, outside of its vocabulary and merges, is left out or replaced by a value of
/// another type. The file is then refused by one line, or its ids stay what they are.
TEST(BpeTokenizer, SkipsNothingThatChangesIds) {
  const json whole = small_file();
  const std::vector<std::string> texts{"abcd ab1234 \n\nx</s> y<s>", "e\xcc\x81  a\tb'S"};
  std::vector<Ids> ids;
  for (const std::string& text : texts) ids.push_back(opened(whole)->encode(text));
  const json flat = whole.flatten();
  std::vector<std::string> places;
  for (const auto& [place, value] : flat.items())
    for (std::string at = place; !at.empty(); at.resize(at.rfind('/')))
      if (at.find("/vocab/") == at.npos && at.find("/merges/") == at.npos) places.push_back(at);
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  int refused = 0, kept = 0;
  const auto check = [&](const json& changed, const std::string& what) {
    try {
      const auto tokenizer = opened(changed);
      for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(tokenizer->encode(texts[i]), ids[i]) << what;
      ++kept;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::bad_input);
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
      EXPECT_EQ(std::string(e.what()).rfind("t.json", 0), 0u) << e.what();
      ++refused;
    }
  };
  for (const std::string& place : places) {
    const json::json_pointer at(place);
    json changed = whole;
    json& parent = changed[at.parent_pointer()];
    // An array without one of its elements is another tokenizer, and a sound one; so is a file without
    // ignore_merges, which is then false.
    if (parent.is_object() && at.back() != "ignore_merges") {
      parent.erase(at.back());
      check(changed, place + " is left out");
    }
    for (const json& other : {json(nullptr), json(true), json(1.5), json(-1), json(4294967296), json("x"),
                              json::array(), json::array({1}), json::object(), json{{"type", "x"}}}) {
      if (other.type() == whole[at].type() || (other.is_number_unsigned() && whole[at].is_number())) continue;
      changed = whole;
      changed[at] = other;
      check(changed, place + " is " + other.dump());
    }
    if (whole[at].is_object() && place != "/model/vocab" && place.find("special_tokens") == place.npos &&
        place.find("single") == place.npos) {
      changed = whole;
      changed[at]["new_key"] = 1;
      expect_error([&] { opened(changed); }, {"t.json", "new_key", "does not know"});
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(kept, 20);
}

TEST(BpeTokenizer, SaysWhatIsWrong) {
  const auto refuses = [](const std::string& place, const json& value,
                          const std::vector<std::string>& parts) {
    json file = small_file();
    file[json::json_pointer(place)] = value;
    SCOPED_TRACE(place + " " + value.dump());
    expect_error([&] { opened(file); }, parts);
  };
  refuses("/version", "2.0", {"t.json: version is \"2.0\"", "1.0"});
  refuses("/truncation", {{"max_length", 512}}, {"t.json: truncation", "null"});
  refuses("/model/type", "Unigram", {"t.json: model.type is \"Unigram\"", "\"BPE\"", ".model"});
  refuses("/model/type", "WordPiece", {"model.type is \"WordPiece\""});
  refuses("/model/dropout", 0.1, {"model.dropout is 0.1"});
  refuses("/model/end_of_word_suffix", "</w>", {"model.end_of_word_suffix"});
  refuses("/model/vocab/a", 65, {"t.json: model.vocab gives the id 65"});
  refuses("/model/vocab/a", -1, {"model.vocab of \"a\"", "-1", "no id"});
  refuses("/model/vocab/a", 1 << 20, {"model.vocab of \"a\"", "1048576", "1048575"});
  refuses("/model/vocab/a", 4294967296, {"4294967296"});
  refuses("/model/vocab/a", 261, {"added_tokens[0].id", "261", "\"a\""});
  refuses("/model/merges/1", "a", {"t.json: model.merges[1]", "\"a\"", "space"});
  refuses("/model/merges/1", "a b c", {"model.merges[1]", "space"});
  refuses("/model/merges/1", {"a"}, {"model.merges[1]", "pair"});
  refuses("/model/merges/1", {"a", 7}, {"model.merges[1][1]", "not a string"});
  refuses("/model/merges/1", {"zz", "a"}, {"model.merges[1]", "\"zz\"", "model.vocab"});
  refuses("/model/merges/1", {"c", "a"}, {"model.merges[1]", "\"ca\"", "model.vocab"});
  refuses("/added_tokens/0/id", 300, {"added_tokens[0].id is 300", "should be 261"});
  refuses("/added_tokens/1/content", "", {"added_tokens[1].content is empty"});
  refuses("/added_tokens/1/content", "<s>", {"added_tokens[1]", "\"<s>\"", "once more"});
  for (const char* flag : {"single_word", "lstrip", "rstrip"})
    refuses(std::string("/added_tokens/1/") + flag, true, {std::string("added_tokens[1].") + flag});
  refuses("/normalizer", {{"type", "Prepend"}, {"prepend", "x"}},
          {"t.json: normalizer.type is \"Prepend\"", "NFC"});
  refuses("/pre_tokenizer", nullptr, {"t.json: pre_tokenizer is null", "ByteLevel"});
  refuses("/pre_tokenizer", {{"type", "Metaspace"}}, {"pre_tokenizer.type is \"Metaspace\""});
  refuses("/pre_tokenizer/pretokenizers/2/add_prefix_space", true,
          {"pretokenizers[2].add_prefix_space is true"});
  refuses("/pre_tokenizer/pretokenizers/1/behavior", "Removed", {"pretokenizers[1].behavior is \"Removed\""});
  refuses("/pre_tokenizer/pretokenizers/1/invert", true, {"pretokenizers[1].invert is true"});
  refuses("/pre_tokenizer/pretokenizers/1/pattern", {{"String", " "}}, {"pretokenizers[1].pattern", "Regex"});
  refuses("/pre_tokenizer/pretokenizers/1/pattern/Regex", "a(", {"pretokenizers[1].pattern.Regex", "'a('"});
  refuses("/pre_tokenizer/pretokenizers/1/pattern/Regex", "a*", {"can match the empty text"});
  refuses("/pre_tokenizer/pretokenizers/1/pattern/Regex", "(?<=a)b", {"pattern.Regex", "'(?<'", "byte 0"});
  refuses("/decoder", nullptr, {"t.json: decoder is null", "ByteLevel"});
  refuses("/decoder/type", "Metaspace", {"decoder.type"});
  refuses("/post_processor/type", "BertProcessing", {"post_processor.type"});
  refuses("/post_processor/special_tokens/<s>/ids", {261, 262}, {"special_tokens.<s>.ids", "one id"});
  refuses("/post_processor/special_tokens/<s>/ids", {7}, {"special_tokens.<s>.ids", "no added token"});
  refuses("/post_processor/single/0/SpecialToken/id", "a\nb", {"special_tokens has no \"a\\nb\""});
  json file = small_file();
  file["model"]["vocab"].erase("z");
  file["model"]["vocab"]["zz"] = 122;
  expect_error([&] { opened(file); }, {"t.json", "\"z\"", "byte 122"});
  expect_error([&] { (void)bpe_tokenizer_of("{\"version\"", "t.json", ""); }, {"t.json", "not JSON"});
  expect_error([&] { (void)bpe_tokenizer_of(std::string(100000, '{'), "t.json", ""); },
               {"t.json", "too deeply"});
}

/// What follows text has no part in the ids before the cut, and the other way round.
TEST(BpeTokenizer, FindsWhereTextMayBeCut) {
  const auto tokenizer = open_tokenizer(golden("llama3"));
  EXPECT_EQ(tokenizer->last_cut("one\ntwo.\n\n  x"), 3u);
  EXPECT_EQ(tokenizer->last_cut("one\ncaf\xc3\xa9\r\n x"), 9u);
  EXPECT_EQ(tokenizer->last_cut("one.\n\n x"), 0u);
  json file = small_file();
  json& pattern = file["pre_tokenizer"]["pretokenizers"][1]["pattern"]["Regex"];
  EXPECT_EQ(opened(file)->last_cut("one\ntwo"), 3u);
  pattern = "\\p{L}+\\n?|\\s+";
  EXPECT_EQ(opened(file)->last_cut("one\ntwo"), 0u) << "a word has the end of the line in it";
  file = small_file();
  file["added_tokens"][0]["content"] = "e\nt";
  file["post_processor"] = nullptr;
  EXPECT_EQ(opened(file)->last_cut("one\ntwo"), 0u) << "an added token has the end of a line in it";
  EXPECT_EQ(tokenizer->last_cut(std::string(std::size_t{17} << 20, ' ')), (std::size_t{17} << 20) - 4);
  const json ids = json::parse(read_file(golden("ids")));
  int cuts = 0;
  for (const std::string& name : golden_names()) {
    const auto one = open_tokenizer(golden(name));
    for (std::size_t i = 0; i < ids["texts"].size(); ++i) {
      const auto text = ids["texts"][i].get<std::string>();
      const std::size_t cut = one->last_cut(text);
      if (cut == 0) continue;
      ++cuts;
      Ids apart = one->encode(text.substr(0, cut));
      one->encode_append(std::string_view(text).substr(cut), apart);
      EXPECT_EQ(apart, ids["ids"][name][i].get<Ids>()) << name << " " << ids["texts"][i];
    }
  }
  EXPECT_GT(cuts, 20);
}

/// A document of several pieces, whose lines end in ways that a cut at the end of any line would change.
TEST(BpeTokenizer, MakesTokenFiles) {
  const TemporaryDirectory dir;
  std::string text;
  for (int i = 0; text.size() < 1500000; ++i)
    text += i % 50 == 0 ? "word\n  next" : " some words, 1234.\n\n\n   'tis a longer line of them!\n \n";
  write_file(dir / "a.txt", text);
  write_file(dir / "b.txt", "short");
  PrepareOptions options;
  options.text = {{dir / "a.txt", dir / "b.txt"}, "file"};
  options.train = dir / "t.bin";
  options.tokenizer = golden("llama3");
  prepare(options);
  const auto tokenizer = open_tokenizer(options.tokenizer);
  const TokenFile file = TokenFile::open(options.train);
  Ids expected{tokenizer->begin_of_document()};
  tokenizer->encode_append(text, expected);
  expected.push_back(tokenizer->end_of_document());
  EXPECT_EQ(file.document_start(1), static_cast<std::int64_t>(expected.size()));
  expected.push_back(tokenizer->begin_of_document());
  tokenizer->encode_append("short", expected);
  expected.push_back(tokenizer->end_of_document());
  Ids ids(static_cast<std::size_t>(file.tokens()));
  file.read(0, file.tokens(), ids.data());
  EXPECT_TRUE(ids == expected);
  EXPECT_EQ(file.documents(), 2);
  EXPECT_EQ(file.tokenizer(), TokenizerKind::bpe);
  EXPECT_EQ(file.text_bytes(), static_cast<std::int64_t>(text.size() + 5));
  const std::string shown = describe(options.train, {.tokenizer = tokenizer.get(), .first = 6});
  EXPECT_NE(shown.find("tokenizer.json"), std::string::npos) << shown;
  const auto other = open_tokenizer(golden("llama3"), "<|eot_id|>");
  const std::string end = fmt::format("token {}", tokenizer->end_of_document());
  expect_error([&] { check_tokenizer(file, *other); }, {end, "--end-of-document"});

  write_file(dir / "b.txt", "one<|end_of_text|>two");
  expect_error([&] { prepare(options); }, {"document 1", end, "--separator"});
  options.end_of_document = "<|eot_id|>";
  prepare(options);
  EXPECT_EQ(TokenFile::open(options.train).end_of_document(), tokenizer->encode("<|eot_id|>").at(0));
  options.tokenizer = "sentencepiece";
  expect_error([&] { prepare(options); }, {"--end-of-document has no effect"});
}

TEST(BpeTokenizer, MakesTokenFilesOfNormalizedText) {
  if (!has_nfc()) GTEST_SKIP() << "this build has no utf8proc";
  // utf8proc 2.8 would lose this letter.
  EXPECT_EQ(to_nfc("\xeb\xb1\x8c\xe1\x86\xa7"), "\xeb\xb1\x8c\xe1\x86\xa7");
  const TemporaryDirectory dir;
  write_file(dir / "a.txt", "cafe\xcc\x81\n");
  PrepareOptions options;
  options.text = {{dir / "a.txt"}, "file"};
  options.train = dir / "t.bin";
  options.tokenizer = golden("qwen");
  EXPECT_NE(to_text(prepare(options)).find("7 bytes of text became 6"), std::string::npos);
  EXPECT_EQ(TokenFile::open(options.train).text_bytes(), 6);
}

#else

TEST(BpeTokenizer, NeedsPcre2) {
  expect_error([] { opened(small_file()); }, {"t.json", "built without PCRE2", "libpcre2-dev"});
}

#endif

TEST(RegexSyntax, IsTranslatedOrRefused) {
  const std::string space = "\\t-\\r\\x{85}\\p{Z}";
  EXPECT_EQ(to_pcre2("[^\\s\\p{L}]+\\s*(?!\\S)", "t"),
            "[^" + space + "\\p{L}]+[" + space + "]*(?![^" + space + "])");
  EXPECT_EQ(to_pcre2("\\d{1,3}", "t"), "\\p{Nd}{1,3}");
  for (const std::string same : {"(?i:'s|'t|'[rv]e)", "[^\\r\\n\\p{L}]?+\\p{Lu}{2}", "a{1,}b{3}", "a+$",
                                 "(a|b)++", "\\[\\.\\-", "(?:x(?=y))", "(?i:s|t)(?i:s)", "st"})
    EXPECT_EQ(to_pcre2(same, "t"), same);
  for (const std::string refused :
       {"^a",      "a.b",           "(?<=a)",      "(?<n>a)", "(?>a)",    "(?i)a",  "(?i:st)", "(?i:SS)",
        "(?i:fi)", "(?i:\xc3\xa9)", "(?i:\\p{L})", "(*UTF)",  "[[a]b]",   "[a&&b]", "[]a]",    "[a",
        "[\\S]",   "\\w",           "\\h",         "\\b",     "\\p{Han}", "\\pL",   "\\x41",   "\\u0041",
        "\\R",     "a{,3}",         "a{",          "a{1,3}+", "a{2}?",    "a{1}*",  "\\",      "\\1"})
    expect_error([&] { (void)to_pcre2(refused, "t"); }, {"t: the regular expression"});
}

}  // namespace
}  // namespace weft::data
