// Reads the file tokenizer.json of Hugging Face's library `tokenizers`, as far as it holds a byte-level BPE.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::data {

/// What a tokenizer.json says, checked.
struct TokenizerJson {
  struct AddedToken {
    std::string content;
    std::int32_t id = -1;
    bool normalized = false;  ///< it is looked for in normalized text
  };
  struct Split {
    std::string pattern;  ///< of Oniguruma; what it matches, and what stands between, become words
    std::string where;    ///< file and key, for messages
  };

  std::int64_t vocab = 0;  ///< every id is below this
  /// The id of each text in model.vocab, where bytes are written as byte_alphabet() says.
  std::unordered_map<std::string, std::int32_t> ids;
  std::vector<std::pair<std::string, std::string>> merges;  ///< in the order of their ranks
  bool ignore_merges = false;  ///< a word that is a text of model.vocab is one token
  std::vector<AddedToken> added;
  bool nfc = false;                          ///< text is brought into normalization form C
  std::vector<Split> splits;                 ///< each cuts further what the ones before it made
  std::optional<std::string> before, after;  ///< the added tokens that are put around a text
};

/// Parses the text of a tokenizer.json; `name` stands for it in messages. Throws Error(bad_input), with the
/// key that is meant, for what is not such a file, contradicts itself, or asks for anything that would change
/// ids and is not done here: no key is skipped that Weft does not know.
TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& name);

/// The characters, as UTF-8, by which byte-level vocabularies write the bytes 0 to 255. Printable ones stand
/// for themselves, the others for U+0100 and on (OpenAI's GPT-2, encoder.py).
std::vector<std::string> byte_alphabet();

}  // namespace weft::data
