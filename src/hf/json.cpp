#include "hf/json.hpp"

#include <nlohmann/json.hpp>

#include "base/check.hpp"

namespace weft::hf::detail {

nlohmann::json parse_object(std::string_view text, const std::string& name) {
  nlohmann::json object = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (!object.is_object())
    throw Error(ExitCode::bad_checkpoint,
                fmt::format("{}: {}", name, object.is_discarded() ? "not JSON" : "not a JSON object"));
  return object;
}

}  // namespace weft::hf::detail
