#include "compile/machine_profile.hpp"

#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/check.hpp"
#include "base/device.hpp"
#include "compile/programs.hpp"
#include "machine/elsewhere.hpp"

namespace weft::compile {
namespace {

std::string read_file(const Deck& deck) {
  const std::string& path = deck.schedule.profile;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file.good() || !text.good())
    throw Error(
        errno == 0 ? ExitCode::bad_input : exit_code_of_named_file(errno),
        fmt::format("{}: cannot read the machine profile {} ({}); write one with `weft profile -o {}`, "
                    "name a machine (host, {}), or leave the key out",
                    place_of(deck, "schedule.profile"), path,
                    errno == 0 ? "is it a file?" : std::strerror(errno), path,
                    fmt::join(machine::shipped_machine_names(), ", ")));
  return text.str();
}

/// The profile that is assumed under this name; nothing when the name is a file's.
std::optional<machine::Profile> default_named(const std::string& name) {
  if (name == "host" || (name.empty() && device_is_host()))
    return default_profile(machine::DefaultProfile::host);
  if (name.empty()) return default_profile(machine::DefaultProfile::h100);
  return machine::shipped_machine(name);
}

}  // namespace

std::string profile_text(const Deck& deck) {
  return default_named(deck.schedule.profile) ? std::string() : read_file(deck);
}

machine::Profile machine_profile(const Deck& deck, std::string_view text) {
  if (auto profile = default_named(deck.schedule.profile)) return *profile;
  return machine::parse_profile(text, deck.schedule.profile);
}

machine::Profile machine_profile(const Deck& deck) {
  return machine_profile(deck, profile_text(deck));
}

bool has_measured_profile(const Deck& deck) {
  return !default_named(deck.schedule.profile);
}

Deck planned_for(const machine::Profile& profile, Deck deck) {
  if (machine::is_gpu_elsewhere(profile.compute) && !is_disabled(deck, "rows"))
    deck.schedule.disable.emplace_back("rows");
  return deck;
}

std::string float8_text(const Deck& deck, const machine::Profile& profile) {
  const Float8Scales scales = deck.precision.float8_scales;
  if (deck.precision.float8.empty() || profile.compute.matmul_f8_of(scales) > 0) return {};
  const bool one_scale_helps = profile.compute.matmul_f8_of(Float8Scales::tensorwise) > 0;
  return fmt::format(
      "{}: {} makes no products in Float8{}, so operands are decoded into bf16, which gains nothing; {}",
      place_of(deck, "precision.float8"), profile.name, one_scale_helps ? " with a scale for each row" : "",
      one_scale_helps ? "set precision.float8_scales = \"tensorwise\"" : "bf16 alone is faster there");
}

std::string profile_source(const Deck& deck) {
  return has_measured_profile(deck) ? deck.schedule.profile : "defaults";
}

}  // namespace weft::compile
