// Byte-level BPE tokenizers from Hugging Face's tokenizer.json: of Llama 3, GPT-2, Qwen, SmolLM, OLMo and
// others.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/tokenizer.hpp"

namespace weft::data {

/// Makes a tokenizer of the text of a tokenizer.json, which messages call `name`. Its ids are those of the
/// library `tokenizers` for every text that is UTF-8; other bytes get the ids of single bytes.
/// `end_of_document` is the content of the added token that ends documents; empty: the one that the file's
/// post-processor puts behind a text, or else the only one with a usual name (<|end_of_text|>, </s> ...).
/// Throws Error(bad_input) as parse_tokenizer_json() does, when the vocabulary lacks a byte, and when it is
/// not clear which token ends documents.
std::unique_ptr<Tokenizer> bpe_tokenizer_of(std::string_view json, const std::string& name,
                                            const std::string& end_of_document);

}  // namespace weft::data
