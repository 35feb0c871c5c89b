#include "hf/json.hpp"

#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/nesting.hpp"

namespace weft::hf::detail {

nlohmann::json parse_object(std::string_view text, const std::string& name) {
  const auto fail = [&](const char* why) {
    throw Error(ExitCode::bad_checkpoint, fmt::format("{}: {}", name, why));
  };
  // It is parsed without recursion, but printed in messages with it.
  if (nests_deeply(text)) fail("it nests too deeply");
  nlohmann::json object = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (!object.is_object()) fail(object.is_discarded() ? "not JSON" : "not a JSON object");
  return object;
}

}  // namespace weft::hf::detail
