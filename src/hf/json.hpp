// Reads the small JSON files of a Hugging Face directory.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace weft::hf::detail {

/// Parses a text that holds one object. Throws Error(bad_checkpoint) with the file's name for any other text,
/// and for brackets that nest deeper than in any such file.
nlohmann::json parse_object(std::string_view text, const std::string& name);

}  // namespace weft::hf::detail
