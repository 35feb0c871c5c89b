#include "train/machine_profile.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/check.hpp"
#include "kernels/space.hpp"
#include "train/agree.hpp"

namespace weft::train {
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
                    "or leave the key out",
                    place_of(deck, "schedule.profile"), path,
                    errno == 0 ? "is it a file?" : std::strerror(errno), path));
  return text.str();
}

/// Nothing for a file's name.
std::optional<machine::Profile> default_named(const std::string& name) {
  if (name == "host" || (name.empty() && kernels::device_is_host()))
    return default_profile(machine::Device::host);
  if (name == "h100" || name.empty()) return default_profile(machine::Device::h100);
  return std::nullopt;
}

}  // namespace

machine::Profile machine_profile(const Deck& deck) {
  if (auto profile = default_named(deck.schedule.profile)) return *profile;
  return machine::parse_profile(read_file(deck), deck.schedule.profile);
}

machine::Profile machine_profile(const Deck& deck, comm::World& world) {
  if (auto profile = default_named(deck.schedule.profile)) return *profile;
  std::string text;
  agree(world, [&] {
    if (world.rank() != 0) return;
    text = read_file(deck);
    machine::parse_profile(text, deck.schedule.profile);
  });
  return machine::parse_profile(world.broadcast(std::move(text), 0), deck.schedule.profile);
}

std::string profile_source(const Deck& deck) {
  return default_named(deck.schedule.profile) ? "defaults" : deck.schedule.profile;
}

}  // namespace weft::train
