// Regular expressions by PCRE2. A build without it has no_pcre2.cpp instead.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "base/check.hpp"
#include "base/quoted.hpp"
#include "data/regex.hpp"
#include "data/regex_syntax.hpp"

namespace weft::data {
namespace {

struct FreePcre2 {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};
template <class T>
using Pcre2Ptr = std::unique_ptr<T, FreePcre2>;

std::string pcre2_message(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR bytes_of(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

struct Regex::Impl {
  std::string where;
  Pcre2Ptr<pcre2_code> code;
  Pcre2Ptr<pcre2_match_data> data;
  Pcre2Ptr<pcre2_match_context> context;
  Pcre2Ptr<pcre2_jit_stack> stack;
};

Regex::Regex(std::string_view pattern, const std::string& where) : impl_(std::make_unique<Impl>()) {
  impl_->where = where;
  const std::string translated = to_pcre2(pattern, where);
  const Pcre2Ptr<pcre2_compile_context> compile(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(compile.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  impl_->code.reset(pcre2_compile(bytes_of(translated), translated.size(), PCRE2_UTF | PCRE2_MULTILINE,
                                  &error, &at, compile.get()));
  WEFT_VALIDATE(impl_->code, "{}: the regular expression '{}' cannot be compiled ({}); get the file again",
                where, one_line(pattern), pcre2_message(error));
  std::uint32_t empty = 0;
  pcre2_pattern_info(impl_->code.get(), PCRE2_INFO_MATCHEMPTY, &empty);
  WEFT_VALIDATE(empty == 0,
                "{}: the regular expression '{}' can match the empty text (which is no word); tell Weft's "
                "authors of this tokenizer",
                where, one_line(pattern));
  // Where code cannot be made at run time, PCRE2 interprets the pattern.
  pcre2_jit_compile(impl_->code.get(), PCRE2_JIT_COMPLETE);
  impl_->data.reset(pcre2_match_data_create(1, nullptr));
  impl_->context.reset(pcre2_match_context_create(nullptr));
  // Patterns in use need a few steps for a word, and as many as it has bytes for a long one.
  pcre2_set_match_limit(impl_->context.get(), 200'000'000);
  impl_->stack.reset(pcre2_jit_stack_create(std::size_t{32} << 10, std::size_t{64} << 20, nullptr));
  pcre2_jit_stack_assign(impl_->context.get(), nullptr, impl_->stack.get());
}

Regex::Regex(Regex&&) noexcept = default;
Regex::~Regex() = default;

bool Regex::find(std::string_view text, std::size_t from, Match& match) {
  const int found = pcre2_match(impl_->code.get(), bytes_of(text), text.size(), from, PCRE2_NO_UTF_CHECK,
                                impl_->data.get(), impl_->context.get());
  if (found == PCRE2_ERROR_NOMATCH) return false;
  WEFT_VALIDATE(found >= 0,
                "{}: the regular expression gave up {} bytes into {} bytes of text ({}); look at the text "
                "there, or cut it into smaller documents",
                impl_->where, from, text.size(), pcre2_message(found));
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(impl_->data.get());
  match = {ends[0], ends[1]};
  return true;
}

}  // namespace weft::data
