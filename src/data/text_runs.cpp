#include "data/text_runs.hpp"

namespace weft::data {
namespace {

constexpr std::string_view space_mark = "\xe2\x96\x81";

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

bool is_plain(char c) {
  return static_cast<unsigned char>(c) < 0x80 && c != '\n';
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!is_continuation(text[i])) return 0;
  const unsigned second = byte(1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second > 0x9f;
  const bool beyond = lead == 0xf4 && second > 0x8f;
  return overlong || surrogate || beyond ? 0 : length;
}

TextRun next_run(std::string_view& text) {
  const auto take = [&](RunKind kind, std::size_t n) {
    const TextRun run{kind, text.substr(0, n)};
    text.remove_prefix(n);
    return run;
  };
  if (text[0] == '\n') return take(RunKind::newline, 1);
  std::size_t n = 0;
  while (n < text.size()) {
    if (is_plain(text[n])) {
      ++n;
      continue;
    }
    const std::string_view rest = text.substr(n);
    const std::size_t length = rest[0] == '\n' || rest.starts_with(space_mark) ? 0 : utf8_length(rest);
    if (length == 0) break;
    n += length;
  }
  return n > 0 ? take(RunKind::text, n) : take(RunKind::raw, 1);
}

std::size_t line_cut(std::string_view text) {
  const std::size_t newline = text.rfind('\n');
  return newline == text.npos ? utf8_cut(text, text.size() - 4) : newline + 1;
}

std::size_t utf8_cut(std::string_view text, std::size_t limit) {
  if (limit >= text.size()) return text.size();
  std::size_t cut = limit;
  while (cut > 0 && limit - cut < 4 && is_continuation(text[cut])) --cut;
  return cut == 0 || is_continuation(text[cut]) ? limit : cut;
}

}  // namespace weft::data
