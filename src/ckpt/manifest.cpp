#include "ckpt/manifest.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "ckpt/directory.hpp"
#include "ckpt/file.hpp"

namespace weft::ckpt {

using Json = nlohmann::ordered_json;

namespace {

// The text's start. The checksum is that of the whole text with zeros in its own place.
constexpr std::string_view prefix = "{\n\"checksum\":\"";
constexpr std::size_t checksum_digits = 16;
constexpr std::string_view format_name = "weft-checkpoint";

[[noreturn]] void fail(const std::string& message) {
  throw Error(ExitCode::bad_checkpoint, message);
}

std::string hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}
std::uint64_t from_hex(const std::string& text) {
  return std::stoull(text, nullptr, 16);
}

Json to_json(const RunState& run) {
  return {{"step", run.step},
          {"tokens", run.tokens},
          {"sample", run.sample},
          {"seed", run.seed},
          {"world", run.world},
          {"mode", run.mode},
          {"weft_version", run.weft_version},
          {"git_hash", run.git_hash},
          {"model_key", run.model_key},
          {"deck", run.deck}};
}

RunState run_from(const Json& j) {
  RunState run;
  run.step = j.at("step");
  run.tokens = j.at("tokens");
  run.sample = j.at("sample");
  run.seed = j.at("seed");
  run.world = j.at("world");
  run.mode = j.at("mode");
  run.weft_version = j.at("weft_version");
  run.git_hash = j.at("git_hash");
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

Unit unit_from(const Json& j) {
  Unit unit;
  unit.path = j.at("path");
  unit.elements = j.at("elements");
  for (const Json& p : j.at("parameters")) {
    const auto shape = p.at("shape").get<std::vector<std::int64_t>>();
    unit.parameters.push_back(Parameter{p.at("path"), Shape(shape.begin(), shape.end()), p.at("offset")});
  }
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
  shard.file = j.at("file");
  shard.bytes = j.at("bytes");
  for (const Json& s : j.at("slices")) {
    ShardSlice slice;
    slice.role = role_from(s.at(0).get<std::string>());
    slice.unit = s.at(1);
    slice.dtype = dtype_from(s.at(2).get<std::string>());
    slice.begin = s.at(3);
    slice.count = s.at(4);
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
  for (const Unit& unit : manifest.units) j["units"].push_back(to_json(unit));
  for (const Shard& shard : manifest.shards) j["shards"].push_back(to_json(shard));
  return j;
}

/// What the loader relies on to index safely.
void check_slices(const Manifest& m) {
  bool sane = m.slab_bytes >= 8;
  for (const Shard& shard : m.shards) {
    for (const ShardSlice& s : shard.slices) {
      sane = sane && s.unit >= 0 && static_cast<std::size_t>(s.unit) < m.units.size() && s.begin >= 0 &&
             s.count > 0;
      if (!sane) break;
      const std::int64_t slab = m.slab_bytes / static_cast<std::int64_t>(size_of(s.dtype));
      sane = static_cast<std::int64_t>(s.checksums.size()) == (s.count + slab - 1) / slab;
    }
  }
  if (!sane) fail("a manifest's slices contradict themselves");
}

Manifest manifest_from(const Json& j) {
  Manifest m;
  m.serial = j.at("serial");
  m.saved_at = j.at("saved_at");
  m.slab_bytes = j.at("slab_bytes");
  m.run = run_from(j.at("run"));
  m.index_bytes = j.at("index").at("bytes");
  m.index_checksum = from_hex(j.at("index").at("checksum"));
  for (const Json& unit : j.at("units")) m.units.push_back(unit_from(unit));
  for (const Json& shard : j.at("shards")) m.shards.push_back(shard_from(shard));
  check_slices(m);
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

std::int64_t Manifest::bytes() const {
  std::int64_t sum = index_bytes;
  for (const Shard& shard : shards) sum += shard.bytes;
  return sum;
}

Manifest read_manifest(const std::string& dir) {
  const std::string path = dir + "/" + manifest_name;
  if (!std::filesystem::exists(path)) {
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
  try {
    const Json json = Json::parse(zeroed);
    if (json.at("format") != format_name) fail(fmt::format("{} is not a checkpoint's manifest", name));
    const int version = json.at("version");
    if (version > format_version) {
      fail(fmt::format("{} is of a newer format ({}; this Weft reads up to {}) use a newer Weft", name,
                       version, format_version));
    }
    return manifest_from(json);
  } catch (const Json::exception& e) {
    fail(fmt::format("{} cannot be read ({})", name, e.what()));
  } catch (const std::length_error&) {
    fail(fmt::format("{} cannot be read (a parameter has more than {} extents)", name, Shape::capacity()));
  }
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
    std::error_code error;
    const auto size = std::filesystem::file_size(manifest.dir + "/" + file, error);
    if (error) fail(fmt::format("{} of {} is missing ({})", file, base_name(manifest.dir), error.message()));
    if (size != static_cast<std::uintmax_t>(bytes)) {
      fail(fmt::format("{} of {} is {} ({} bytes instead of {})", file, base_name(manifest.dir),
                       size < static_cast<std::uintmax_t>(bytes) ? "truncated" : "too long", size, bytes));
    }
  };
  for (const Shard& shard : manifest.shards) check(shard.file, shard.bytes);
}

}  // namespace detail
}  // namespace weft::ckpt
