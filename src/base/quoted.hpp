// Quotes text that comes from elsewhere, so that it can stand inside text of ours.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// The text as a TOML string: in double quotes, with quotes, backslashes and control characters escaped. Call
/// it weft::quoted, because for a std::string the compiler finds std::quoted, too.
std::string quoted(std::string_view text);

/// `text` with control characters escaped, so that a message with it stays on one line.
std::string one_line(std::string_view text);

/// Whether the text is UTF-8 (RFC 3629). What is not cannot be written as JSON.
bool is_utf8(std::string_view text);

/// The text as it stands between tags, or in an attribute's quotes, of XML and HTML.
std::string xml_escaped(std::string_view text);

}  // namespace weft
