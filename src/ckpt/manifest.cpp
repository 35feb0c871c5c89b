#include "ckpt/manifest.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/quoted.hpp"
#include "ckpt/directory.hpp"
#include "ckpt/file.hpp"
#include "ckpt/json_fields.hpp"

namespace weft::ckpt {

namespace {

using detail::from_hex;
using detail::hex;
using detail::integer;
using detail::Json;
using detail::name_from;
using detail::small_integer;

// The text's start. The checksum is that of the whole text with zeros in its own place.
constexpr std::string_view prefix = "{\n\"checksum\":\"";
constexpr std::size_t checksum_digits = 16;
constexpr std::string_view format_name = "weft-checkpoint";

[[noreturn]] void fail(const std::string& message) {
  throw Error(ExitCode::bad_checkpoint, message);
}

Json to_json(const DataFile& file) {
  return {{"key", file.key},
          {"path", file.path},
          {"tokens", file.tokens},
          {"fingerprint", hex(file.fingerprint)},
          {"verified", file.verified}};
}

DataFile data_file_from(const Json& j) {
  DataFile file;
  file.key = name_from(j.at("key"));
  file.path = name_from(j.at("path"));
  file.tokens = integer<std::int64_t>(j.at("tokens"));
  file.fingerprint = from_hex(j.at("fingerprint"));
  file.verified = name_from(j.at("verified"));
  return file;
}

Json to_json(const RunState& run) {
  Json j = {{"step", run.step},
            {"tokens", run.tokens},
            {"sample", run.sample},
            {"seed", run.seed},
            {"world", run.world},
            {"mode", run.mode},
            {"weft_version", run.weft_version},
            {"git_hash", run.git_hash},
            {"model_key", run.model_key},
            {"deck", run.deck}};
  if (!run.origin.empty()) j["origin"] = run.origin;
  for (const DataFile& file : run.data) j["data"].push_back(to_json(file));
  return j;
}

RunState run_from(const Json& j) {
  RunState run;
  run.step = integer<std::int64_t>(j.at("step"));
  run.tokens = integer<std::int64_t>(j.at("tokens"));
  run.sample = integer<std::int64_t>(j.at("sample"));
  run.seed = integer<std::uint64_t>(j.at("seed"), std::numeric_limits<std::uint64_t>::max());
  run.world = small_integer(j.at("world"));
  run.mode = name_from(j.at("mode"));
  if (j.contains("origin")) run.origin = name_from(j.at("origin"));
  if (j.contains("data"))
    for (const Json& file : j.at("data")) run.data.push_back(data_file_from(file));
  run.weft_version = name_from(j.at("weft_version"));
  run.git_hash = name_from(j.at("git_hash"));
  run.model_key = j.at("model_key");
  run.deck = j.at("deck");
  return run;
}

Json to_json(const Unit& unit) {
  Json parameters = Json::array();
  for (const Parameter& p : unit.parameters) {
    const std::vector<std::int64_t> shape(p.shape.begin(), p.shape.end());
    parameters.push_back({{"path", p.path}, {"shape", shape}, {"offset", p.offset}});
  }
  return {{"path", unit.path}, {"elements", unit.elements}, {"parameters", std::move(parameters)}};
}

Parameter parameter_from(const Json& j, std::int64_t unit_elements) {
  Parameter p{name_from(j.at("path")), {}, integer<std::int64_t>(j.at("offset"))};
  std::int64_t room = unit_elements - p.offset;
  for (const Json& extent : j.at("shape")) {
    if (p.shape.size() == Shape::capacity())
      fail(fmt::format("a parameter has more than {} extents", Shape::capacity()));
    p.shape.push_back(integer<std::int64_t>(extent));
    if (p.shape.back() == 0) fail(fmt::format("parameter {} is empty", p.path));
    room /= p.shape.back();
  }
  if (room < 1) fail(fmt::format("parameter {} leaves its unit", p.path));
  return p;
}

Unit unit_from(const Json& j) {
  Unit unit;
  unit.path = name_from(j.at("path"));
  unit.elements = integer<std::int64_t>(j.at("elements"));
  for (const Json& p : j.at("parameters")) unit.parameters.push_back(parameter_from(p, unit.elements));
  return unit;
}

// A slice is an array, not an object: a checkpoint of a thousand ranks has a million of them.
Json to_json(const Shard& shard) {
  Json slices = Json::array();
  for (const ShardSlice& s : shard.slices) {
    Json checksums = Json::array();
    for (std::uint64_t c : s.checksums) checksums.push_back(hex(c));
    slices.push_back(Json::array(
        {name_of(s.role), s.unit, weft::name_of(s.dtype), s.begin, s.count, std::move(checksums)}));
  }
  return {{"file", shard.file}, {"bytes", shard.bytes}, {"slices", std::move(slices)}};
}

Shard shard_from(const Json& j) {
  Shard shard;
  shard.file = name_from(j.at("file"));
  shard.bytes = integer<std::int64_t>(j.at("bytes"));
  for (const Json& s : j.at("slices")) {
    ShardSlice slice;
    slice.role = role_from(s.at(0).get<std::string>());
    slice.unit = small_integer(s.at(1));
    slice.dtype = dtype_from(s.at(2).get<std::string>());
    slice.begin = integer<std::int64_t>(s.at(3));
    slice.count = integer<std::int64_t>(s.at(4));
    for (const Json& c : s.at(5)) slice.checksums.push_back(from_hex(c));
    shard.slices.push_back(std::move(slice));
  }
  return shard;
}

Json to_json(const Manifest& manifest) {
  Json j;
  j["format"] = format_name;
  j["version"] = format_version;
  j["serial"] = manifest.serial;
  j["saved_at"] = manifest.saved_at;
  j["slab_bytes"] = manifest.slab_bytes;
  j["run"] = to_json(manifest.run);
  j["index"] = {{"bytes", manifest.index_bytes}, {"checksum", hex(manifest.index_checksum)}};
  j["units"] = Json::array();
  for (const Unit& unit : manifest.units) j["units"].push_back(to_json(unit));
  j["shards"] = Json::array();
  for (const Shard& shard : manifest.shards) j["shards"].push_back(to_json(shard));
  return j;
}

/// All files together have a size that can be, and bytes for all elements.
bool files_hold_units(const Manifest& m) {
  auto room = static_cast<std::uint64_t>(m.index_bytes);
  for (const Shard& shard : m.shards) {
    room += static_cast<std::uint64_t>(shard.bytes);
    if (room > detail::most) return false;
  }
  for (const Unit& unit : m.units) {
    if (static_cast<std::uint64_t>(unit.elements) > room) return false;
    room -= static_cast<std::uint64_t>(unit.elements);
  }
  return true;
}

/// The shard is a file of the directory, and none elsewhere; its slices are within their units and fit into
/// it.
bool holds_slices(const Shard& shard, const Manifest& m) {
  if (shard.file.empty() || shard.file[0] == '.' || shard.file.find('/') != std::string::npos) return false;
  std::int64_t room = shard.bytes;
  for (const ShardSlice& s : shard.slices) {
    if (static_cast<std::size_t>(s.unit) >= m.units.size() || s.count == 0) return false;
    if (s.begin + s.count > m.units[static_cast<std::size_t>(s.unit)].elements) return false;
    const auto size = static_cast<std::int64_t>(size_of(s.dtype));
    const std::int64_t slab = m.slab_bytes / size;
    if (static_cast<std::int64_t>(s.checksums.size()) != (s.count + slab - 1) / slab) return false;
    room -= s.count * size;
    if (room < 0) return false;
  }
  return true;
}

/// What the loader relies on to index and allocate safely.
void check_sizes(const Manifest& m) {
  const bool sane = m.slab_bytes >= 8 && files_hold_units(m) &&
                    std::all_of(m.shards.begin(), m.shards.end(),
                                [&m](const Shard& shard) { return holds_slices(shard, m); });
  if (!sane) fail("its slices contradict themselves, or the sizes of files");
}

Manifest manifest_from(const Json& j) {
  Manifest m;
  m.serial = integer<std::int64_t>(j.at("serial"));
  m.saved_at = name_from(j.at("saved_at"));
  m.slab_bytes = integer<std::int64_t>(j.at("slab_bytes"));
  m.run = run_from(j.at("run"));
  m.index_bytes = integer<std::int64_t>(j.at("index").at("bytes"));
  m.index_checksum = from_hex(j.at("index").at("checksum"));
  for (const Json& unit : j.at("units")) m.units.push_back(unit_from(unit));
  for (const Json& shard : j.at("shards")) m.shards.push_back(shard_from(shard));
  check_sizes(m);
  return m;
}

/// The text with zeros for its checksum, and the checksum; throws when the text doesn't start as a manifest
/// does.
std::pair<std::string, std::string> split_checksum(std::string_view text, const std::string& name) {
  if (text.size() < prefix.size() + checksum_digits || text.substr(0, prefix.size()) != prefix) {
    fail(fmt::format("{} is damaged (it does not start as a manifest)", name));
  }
  std::string zeroed(text);
  const std::string checksum = zeroed.substr(prefix.size(), checksum_digits);
  zeroed.replace(prefix.size(), checksum_digits, checksum_digits, '0');
  return {std::move(zeroed), checksum};
}

}  // namespace

std::int64_t Shard::state_bytes() const {
  std::int64_t sum = 0;
  for (const ShardSlice& s : slices) sum += s.count * static_cast<std::int64_t>(size_of(s.dtype));
  return sum;
}

std::int64_t Manifest::bytes() const {
  std::int64_t sum = 0;
  for (const Shard& shard : shards) sum += shard.state_bytes();
  return sum;
}

Manifest read_manifest(const std::string& dir) {
  const std::string path = dir + "/" + manifest_name;
  if (!detail::file_bytes(path)) {
    fail(fmt::format("{} is not a checkpoint (it has no {}) name a directory step-N of a run", dir,
                     manifest_name));
  }
  Manifest manifest = detail::manifest_from_text(detail::read_text(path), path);
  manifest.dir = dir;
  const std::string name = detail::base_name(dir);
  if (detail::step_of(name).value_or(manifest.run.step) != manifest.run.step) {
    fail(fmt::format(
        "{} is the checkpoint of step {} (the directory was renamed, or the manifest is not its own) "
        "name it {}",
        dir, manifest.run.step, detail::step_name(manifest.run.step)));
  }
  return manifest;
}

namespace detail {

std::string to_text(const Manifest& manifest) {
  std::string text = fmt::format("{}{:0>{}}\"", prefix, "", checksum_digits);
  const Json json = to_json(manifest);
  for (const auto& [key, value] : json.items()) text += fmt::format(",\n\"{}\":{}", key, value.dump());
  text += "\n}\n";
  text.replace(prefix.size(), checksum_digits, hex(hash_text(text)));
  return text;
}

Manifest manifest_from_text(std::string_view text, const std::string& name) {
  const auto [zeroed, checksum] = split_checksum(text, name);
  if (hex(hash_text(zeroed)) != checksum)
    fail(fmt::format("{} is damaged (its checksum does not match)", name));
  const auto fail_to_read = [&name](const std::exception& e) {
    fail(one_line(fmt::format("{} cannot be read ({})", name, e.what())));
  };
  int version = 0;
  try {
    if (nests_deeply(zeroed)) fail("it nests too deeply");
    const Json json = Json::parse(zeroed);
    if (json.at("format") != format_name) fail("it is not a checkpoint's manifest");
    version = small_integer(json.at("version"));
    if (version <= format_version) return manifest_from(json);
  } catch (const Json::exception& e) {
    fail_to_read(e);
  } catch (const Error& e) {
    fail_to_read(e);
  }
  fail(fmt::format("{} is of a newer format ({}; this Weft reads up to {}) use a newer Weft", name, version,
                   format_version));
}

std::string to_text(const Shard& shard) {
  return to_json(shard).dump();
}
Shard shard_from_text(std::string_view text) {
  return shard_from(Json::parse(text));
}

void check_coverage(const Manifest& manifest) {
  std::map<std::pair<Role, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> runs;
  bool has_role[std::size(all_roles)] = {};
  for (const Shard& shard : manifest.shards) {
    for (const ShardSlice& s : shard.slices) {
      runs[{s.role, s.unit}].emplace_back(s.begin, s.begin + s.count);
      has_role[static_cast<int>(s.role)] = true;
    }
  }
  for (Role role : all_roles) {
    if (!has_role[static_cast<int>(role)]) continue;
    for (int u = 0; u < static_cast<int>(manifest.units.size()); ++u) {
      const Unit& unit = manifest.units[static_cast<std::size_t>(u)];
      auto& cover = runs[{role, u}];
      std::sort(cover.begin(), cover.end());
      std::int64_t end = 0;
      const auto torn = std::find_if(cover.begin(), cover.end(), [&](const auto& run) {
        return run.first != std::exchange(end, run.second);
      });
      if (torn != cover.end() || end != unit.elements) {
        fail(fmt::format(
            "the ranks' slices do not cover {} of unit {} once (gap or overlap near element {} of {})",
            name_of(role), unit.path, torn != cover.end() ? torn->first : end, unit.elements));
      }
    }
  }
}

void check_files(const Manifest& manifest) {
  const auto check = [&](const std::string& file, std::int64_t bytes) {
    const auto size = file_bytes(manifest.dir + "/" + file);
    if (!size) fail(fmt::format("{} of {} is missing", file, base_name(manifest.dir)));
    if (*size != bytes) {
      fail(fmt::format("{} of {} is {} ({} bytes instead of {})", file, base_name(manifest.dir),
                       *size < bytes ? "truncated" : "too long", *size, bytes));
    }
  };
  for (const Shard& shard : manifest.shards) check(shard.file, shard.bytes);
}

}  // namespace detail
}  // namespace weft::ckpt
