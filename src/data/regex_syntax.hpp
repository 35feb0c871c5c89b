// Translates the regular expressions of a tokenizer.json, which are written for Oniguruma, to PCRE2's.
#pragma once

#include <string>
#include <string_view>

namespace weft::data {

/// The same pattern for PCRE2 with UTF and MULTILINE. Known are characters, classes without nesting, \s,
/// \S, \d, \p and \P with a general category, \r \n \t \f, groups (?: (?i: (?! (?=, the quantifiers of both
/// libraries, and $. These are what tokenizers in use have. Throws Error(bad_input) for anything else,
/// because much of it means one thing here and another there; `where` names file and key.
std::string to_pcre2(std::string_view pattern, const std::string& where);

}  // namespace weft::data
