#include "data/regex_syntax.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "base/check.hpp"
#include "base/quoted.hpp"

namespace weft::data {
namespace {

// Unicode's White_Space, which is Oniguruma's \s. PCRE2's own also has U+180E.
constexpr std::string_view white_space = "\\t-\\r\\x{85}\\p{Z}";

constexpr std::array<std::string_view, 36> categories{"C",  "Cc", "Cf", "Cn", "Co", "L",  "Ll", "Lm", "Lo",
                                                      "Lt", "Lu", "M",  "Mc", "Me", "Mn", "N",  "Nd", "Nl",
                                                      "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps",
                                                      "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};

// Pairs of letters that Unicode's case folding makes of one ligature or of a sharp s. Oniguruma takes that
// one character for the pair where case is ignored, and PCRE2 does not.
constexpr std::array<std::string_view, 5> folded_pairs{"ss", "st", "ff", "fi", "fl"};

bool is_punctuation(char c) {
  return std::ispunct(static_cast<unsigned char>(c)) != 0;
}

class Translation {
 public:
  Translation(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const std::size_t begin = at_;
      const char c = pattern_[at_];
      if (c == '\\')
        escape(/*in_class=*/false);
      else if (c == '[')
        char_class();
      else if (c == '(')
        open_group();
      else if (c == ')')
        close_group();
      else if (c == '{')
        counted();
      else if (c == '.' || c == '^')
        refuse(1);
      else
        literal();
      if (at_ != begin + 1 || is_punctuation(c)) last_letter_ = '\0';
    }
    return out_;
  }

 private:
  /// Ends the translation at what begins here and has `size` bytes.
  [[noreturn]] void refuse(std::size_t size) const {
    throw Error(
        ExitCode::bad_input,
        fmt::format("{}: the regular expression has '{}' at its byte {} (Weft does not know this, and "
                    "would perhaps cut words otherwise); tell Weft's authors of this tokenizer",
                    where_, one_line(pattern_.substr(at_, size)), at_));
  }
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool ignores_case() const { return !groups_.empty() && groups_.back(); }
  void copy(std::size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }

  void literal() {
    const auto c = static_cast<unsigned char>(pattern_[at_]);
    if (ignores_case()) {
      const auto lower = static_cast<char>(std::tolower(c));
      if (c >= 0x80 ||
          (last_letter_ != '\0' && std::find(folded_pairs.begin(), folded_pairs.end(),
                                             std::string{last_letter_, lower}) != folded_pairs.end()))
        refuse(1);
      last_letter_ = lower;
    }
    copy(1);
  }

  void escape(bool in_class) {
    const char c = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    if (c != '\0' && (is_punctuation(c) || std::string_view("rntf").find(c) != std::string_view::npos))
      return copy(2);
    if (ignores_case()) refuse(2);
    if (c == 'd') {
      out_ += "\\p{Nd}";
      at_ += 2;
    } else if (c == 's' || (c == 'S' && !in_class)) {
      if (!in_class) out_ += c == 's' ? "[" : "[^";
      out_ += white_space;
      if (!in_class) out_ += ']';
      at_ += 2;
    } else if (c == 'p' || c == 'P') {
      const std::size_t end = pattern_.find('}', at_);
      const bool named = at_ + 2 < pattern_.size() && pattern_[at_ + 2] == '{' && end != pattern_.npos;
      const std::string_view name = named ? pattern_.substr(at_ + 3, end - at_ - 3) : std::string_view();
      if (std::find(categories.begin(), categories.end(), name) == categories.end())
        refuse(named ? end + 1 - at_ : 2);
      copy(end + 1 - at_);
    } else {
      refuse(2);
    }
  }

  /// A class in brackets. In Oniguruma [ nests, and && intersects.
  void char_class() {
    copy(1);
    if (next_is("^")) copy(1);
    if (next_is("]")) refuse(1);
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      if (next_is("[") || next_is("&&") ||
          (ignores_case() && static_cast<unsigned char>(pattern_[at_]) >= 0x80))
        refuse(1);
      pattern_[at_] == '\\' ? escape(/*in_class=*/true) : copy(1);
    }
    if (at_ == pattern_.size())
      throw Error(ExitCode::bad_input,
                  fmt::format("{}: the regular expression has a class that does not end; get the file again",
                              where_));
    copy(1);
  }

  void open_group() {
    constexpr std::array<std::string_view, 4> known{"(?:", "(?i:", "(?!", "(?="};
    const auto kind = std::find_if(known.begin(), known.end(), [&](auto text) { return next_is(text); });
    if (kind == known.end() && (next_is("(?") || next_is("(*"))) refuse(3);
    const bool ignores = ignores_case() || next_is("(?i:");
    groups_.push_back(ignores);
    copy(kind == known.end() ? 1 : kind->size());
  }

  void close_group() {
    if (!groups_.empty()) groups_.pop_back();
    copy(1);  // PCRE2 refuses one too many
  }

  /// {n}, {n,} or {n,m}. What may follow a + or * (a ? or a +) has another meaning here.
  void counted() {
    std::size_t end = at_ + 1;
    const auto digits = [&] {
      const std::size_t begin = end;
      while (end < pattern_.size() && std::isdigit(static_cast<unsigned char>(pattern_[end])) != 0) ++end;
      return end > begin;
    };
    bool sound = digits();
    if (sound && end < pattern_.size() && pattern_[end] == ',') {
      ++end;
      digits();
    }
    sound = sound && end < pattern_.size() && pattern_[end] == '}';
    const char behind = sound && end + 1 < pattern_.size() ? pattern_[end + 1] : '\0';
    if (!sound || behind == '?' || behind == '+' || behind == '*')
      refuse(std::min(end + 2, pattern_.size()) - at_);
    copy(end + 1 - at_);
  }

  std::string_view pattern_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<bool> groups_;  ///< the open groups: whether case is ignored in them
  char last_letter_ = '\0';   ///< in such a group, the letter just before, in lower case
};

}  // namespace

std::string to_pcre2(std::string_view pattern, const std::string& where) {
  return Translation(pattern, where).run();
}

}  // namespace weft::data
