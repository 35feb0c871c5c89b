// The regular expressions by which a tokenizer.json cuts text into words.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace weft::data {

/// A pattern in the part of Oniguruma's syntax that regex_syntax.hpp describes, matched by PCRE2. One thread
/// at a time may use it.
class Regex {
 public:
  struct Match {
    std::size_t begin, end;
  };

  /// Compiles a pattern. `where` names file and key in messages. Throws Error(bad_input) for a pattern that
  /// is not understood or can match the empty text, and in a build without PCRE2.
  Regex(std::string_view pattern, const std::string& where);
  Regex(Regex&&) noexcept;
  ~Regex();

  /// Finds the first match in `text`, which is UTF-8, that begins at `from` or behind it. Returns false when
  /// there is none. Throws Error(bad_input) when the pattern takes too long for this text.
  bool find(std::string_view text, std::size_t from, Match& match);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::data
