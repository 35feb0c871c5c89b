#include "data/text_reader.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "data/byte_stream.hpp"
#include "data/text_runs.hpp"

namespace weft::data {
namespace {

constexpr std::size_t longest_piece = std::size_t{1} << 20;

/// The literal text that stands between documents; empty for the separator "file".
std::string separator_text(const std::string& separator) {
  if (separator == "blank-line") return "\n\n";
  if (separator == "file") return "";
  std::string text;
  for (std::size_t i = 0; i < separator.size(); ++i) {
    if (separator[i] != '\\') {
      text += separator[i];
      continue;
    }
    const char c = ++i < separator.size() ? separator[i] : '\0';
    WEFT_VALIDATE(c == 'n' || c == 'r' || c == 't' || c == '\\',
                  "the document separator \"{}\" has an unknown escape; use \\n \\r \\t or \\\\", separator);
    text += c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : '\\';
  }
  WEFT_VALIDATE(!text.empty(), "the document separator is empty; use blank-line, file, or a string");
  return text;
}

bool is_jsonl(std::string_view path) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  return path.ends_with(".jsonl");
}

}  // namespace

struct DocumentReader::Impl {
  TextInputs inputs;
  FindCut find_cut;
  std::string separator;
  std::size_t file = 0;  ///< the next input to open
  std::unique_ptr<ByteStream> stream;
  bool jsonl = false;
  bool at_end = false;  ///< all of this input has been read
  std::string buffer;
  std::size_t begin = 0;     ///< first byte of the buffer that has not been handed out
  std::size_t searched = 0;  ///< no separator starts between begin and here
  std::int64_t line = 0;     ///< line number in a JSONL input
  std::string text;          ///< text of a JSONL document
  std::int64_t document = 0;
  bool inside = false;  ///< a part of this document has been handed out
  bool sought = false;  ///< an input that the separator applies to was opened
  bool found_any = false;

  bool next(TextPiece& piece);
  bool next_raw(std::string_view& text, bool& ends);
  bool open_next();
  void refill();
  bool take_plain(std::string_view& text, bool& ends);
  bool take_line(std::string_view& text);
};

DocumentReader::DocumentReader(TextInputs inputs, FindCut find_cut) : impl_(std::make_unique<Impl>()) {
  impl_->find_cut = find_cut ? std::move(find_cut) : line_cut;
  impl_->separator = separator_text(inputs.separator);
  WEFT_VALIDATE(!inputs.files.empty(),
                "there is no text to read; name at least one file, or - for standard input");
  for (const std::string& path : inputs.files)
    WEFT_VALIDATE(path == "-" || ::access(path.c_str(), R_OK) == 0,
                  "cannot open the text {} ({}); check the path", path, std::strerror(errno));
  impl_->inputs = std::move(inputs);
}

DocumentReader::~DocumentReader() = default;

bool DocumentReader::next(TextPiece& piece) {
  return impl_->next(piece);
}

bool DocumentReader::separator_found() const {
  return impl_->found_any || !impl_->sought;
}

bool DocumentReader::Impl::next(TextPiece& piece) {
  std::string_view bytes;
  for (bool ends = false; next_raw(bytes, ends);) {
    if (bytes.empty() && !inside) continue;
    piece = {bytes, document, ends};
    inside = !ends;
    if (ends) ++document;
    return true;
  }
  return false;
}

/// Takes the next piece, which may be an empty document. Returns false when all inputs are read.
bool DocumentReader::Impl::next_raw(std::string_view& bytes, bool& ends) {
  while (stream || open_next()) {
    ends = true;
    if (jsonl ? take_line(bytes) : take_plain(bytes, ends)) return true;
    stream.reset();
  }
  return false;
}

bool DocumentReader::Impl::open_next() {
  if (file == inputs.files.size()) return false;
  const std::string& path = inputs.files[file++];
  stream = std::make_unique<ByteStream>(path);
  jsonl = is_jsonl(path);
  sought = sought || (!jsonl && !separator.empty());
  at_end = false;
  buffer.clear();
  begin = searched = 0;
  line = 0;
  return true;
}

void DocumentReader::Impl::refill() {
  buffer.erase(0, begin);
  searched -= begin;
  begin = 0;
  at_end = !stream->read(buffer);
}

/// Takes the text up to the next separator, or up to a cut. Returns false at the end of the input, after its
/// last document.
bool DocumentReader::Impl::take_plain(std::string_view& bytes, bool& ends) {
  const auto hand_out = [&](std::size_t end, std::size_t resume) {
    bytes = std::string_view(buffer).substr(begin, end - begin);
    begin = searched = resume;
    return true;
  };
  for (;;) {
    const std::size_t found = separator.empty() ? std::string::npos : buffer.find(separator, searched);
    if (found != std::string::npos) {
      found_any = true;
      return hand_out(found, found + separator.size());
    }
    if (at_end) {
      if (begin == buffer.size() && !inside) return false;
      return hand_out(buffer.size(), buffer.size());
    }
    // A separator may start in the last bytes, so they stay in the buffer.
    const std::size_t kept = separator.empty() ? 0 : separator.size() - 1;
    searched = std::max(begin, buffer.size() - std::min(buffer.size(), kept));
    if (searched - begin > longest_piece) {
      const std::size_t cut = find_cut(std::string_view(buffer).substr(begin, searched - begin));
      if (cut > 0) {
        ends = false;
        return hand_out(begin + cut, begin + cut);
      }
    }
    refill();
  }
}

/// Takes the document of the next JSONL line that is not blank.
bool DocumentReader::Impl::take_line(std::string_view& bytes) {
  for (;;) {
    const std::size_t found = buffer.find('\n', searched);
    if (found == std::string::npos && !at_end) {
      searched = buffer.size();
      refill();
      continue;
    }
    if (found == std::string::npos && begin == buffer.size()) return false;
    const std::size_t end = std::min(found, buffer.size());
    const std::string_view row = std::string_view(buffer).substr(begin, end - begin);
    begin = searched = std::min(end + 1, buffer.size());
    ++line;
    if (row.find_first_not_of(" \t\r") == row.npos) continue;
    const auto object = nlohmann::json::parse(row, nullptr, /*allow_exceptions=*/false);
    const bool sound = object.is_object() && object.contains("text") && object["text"].is_string();
    WEFT_VALIDATE(sound,
                  "{}:{}: not a JSON object with a \"text\" string (JSONL inputs hold one document a line)",
                  inputs.files[file - 1], line);
    text = object["text"].get<std::string>();
    bytes = text;
    return true;
  }
}

}  // namespace weft::data
