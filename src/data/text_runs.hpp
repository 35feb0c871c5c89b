// Cuts bytes into the runs that SentencePiece keeps as they are, and those that it would lose.
#pragma once

#include <cstddef>
#include <string_view>

namespace weft::data {

enum class RunKind {
  text,     ///< valid UTF-8 without newlines and without U+2581, by which SentencePiece writes a space
  newline,  ///< one "\n"
  raw       ///< a byte that is not UTF-8, or a byte of U+2581
};

struct TextRun {
  RunKind kind;
  std::string_view bytes;
};

/// Bytes of the UTF-8 character that `text` starts with (Unicode 15, table 3-7), or 0 when it starts with
/// none.
std::size_t utf8_length(std::string_view text);

/// Removes and returns the first run of `text`, which must not be empty. Runs of text are as long as
/// possible.
TextRun next_run(std::string_view& text);

/// Where to cut a long text that goes on: behind its last newline or, without one, behind a whole character.
std::size_t line_cut(std::string_view text);

/// The largest cut at or below `limit` that does not fall inside a UTF-8 character.
std::size_t utf8_cut(std::string_view text, std::size_t limit);

}  // namespace weft::data
