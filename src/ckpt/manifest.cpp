#include "ckpt/manifest.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/nesting.hpp"
#include "base/quoted.hpp"
#include "ckpt/directory.hpp"
#include "ckpt/format_1.hpp"
#include "ckpt/json_fields.hpp"
#include "ckpt/shard.hpp"
#include "io/path.hpp"
#include "io/storage_wait.hpp"

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
// The largest manifest that is read; it has room for a million ranks.
constexpr std::int64_t most_manifest_bytes = std::int64_t{64} << 20;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ExitCode::bad_checkpoint, message);
}

[[noreturn]] void fail_damaged(const std::string& name, const std::string& why) {
  fail(one_line(
      fmt::format("{} is damaged ({}); restore the file, or resume from an older checkpoint", name, why)));
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
    if (p.in_first) parameters.back()["in_first"] = true;
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
  p.in_first = j.value("in_first", false);
  if (p.in_first && p.shape.size() != 2) fail(fmt::format("parameter {} is no matrix", p.path));
  return p;
}

Unit unit_from(const Json& j) {
  Unit unit;
  unit.path = name_from(j.at("path"));
  unit.elements = integer<std::int64_t>(j.at("elements"));
  for (const Json& p : j.at("parameters")) unit.parameters.push_back(parameter_from(p, unit.elements));
  return unit;
}

Json to_json(const char* name, const Digest& digest) {
  return {{"file", name}, {"bytes", digest.bytes}, {"checksum", hex(digest.checksum)}};
}

Digest digest_from(const Json& j) {
  return {integer<std::int64_t>(j.at("bytes")), from_hex(j.at("checksum"))};
}

Json to_json(const Manifest& manifest) {
  Json j;
  j["format"] = format_name;
  j["version"] = format_version;
  j["serial"] = manifest.serial;
  j["saved_at"] = manifest.saved_at;
  j["slab_bytes"] = manifest.slab_bytes;
  j["run"] = to_json(manifest.run);
  j["state_bytes"] = manifest.state_bytes;
  j["slices"] = to_json(slices_name, manifest.slices);
  j["index"] = manifest.index ? to_json(index_name, *manifest.index) : Json();
  j["units"] = Json::array();
  for (const Unit& unit : manifest.units) j["units"].push_back(to_json(unit));
  j["files"] = Json::array();
  for (const StoredFile& file : manifest.files) j["files"].push_back(Json::array({file.name, file.bytes}));
  return j;
}

/// Checks what the loader relies on: all files are in this directory, their sizes together are possible, and
/// they have enough bytes for all elements.
void check_sizes(const Manifest& m) {
  std::uint64_t room = 0;
  for (const StoredFile& file : m.files) {
    if (!detail::is_plain_name(file.name)) fail(fmt::format("{} is no file of a checkpoint", file.name));
    room += static_cast<std::uint64_t>(file.bytes);
    if (room > detail::most) break;
  }
  bool sane = m.slab_bytes >= 8 && room <= detail::most && static_cast<std::uint64_t>(m.state_bytes) <= room;
  for (const Unit& unit : m.units) {
    sane = sane && static_cast<std::uint64_t>(unit.elements) <= room;
    room -= sane ? static_cast<std::uint64_t>(unit.elements) : 0;
  }
  if (!sane) fail("its units contradict the sizes of its files");
}

/// Reads what formats 1 and 2 have in common.
Manifest manifest_from(const Json& j) {
  Manifest m;
  m.version = small_integer(j.at("version"));
  m.serial = integer<std::int64_t>(j.at("serial"));
  m.saved_at = name_from(j.at("saved_at"));
  m.slab_bytes = integer<std::int64_t>(j.at("slab_bytes"));
  m.run = run_from(j.at("run"));
  if (!j.at("index").is_null()) m.index = digest_from(j.at("index"));
  for (const Json& unit : j.at("units")) m.units.push_back(unit_from(unit));
  return m;
}

Manifest from_format_2_on(const Json& j) {
  Manifest m = manifest_from(j);
  m.state_bytes = integer<std::int64_t>(j.at("state_bytes"));
  m.slices = digest_from(j.at("slices"));
  for (const Json& file : j.at("files"))
    m.files.push_back({name_from(file.at(0)), integer<std::int64_t>(file.at(1))});
  check_sizes(m);
  for (const Unit& unit : m.units)
    for (const Parameter& p : unit.parameters)
      if (p.in_first && m.version < 3) fail(fmt::format("parameter {} is not as format 2 has it", p.path));
  return m;
}

/// Calls `read`, and throws what it throws as "NAME is damaged (WHY)".
template <class Read>
Manifest reading(const std::string& name, Read&& read) {
  std::string reason;
  try {
    return read();
  } catch (const Json::exception& e) {
    reason = e.what();
  } catch (const Error& e) {
    reason = e.what();
  }
  fail_damaged(name, reason);
}

/// Reads a manifest of format 1: it looks at the shards one by one, and keeps only the sizes of their files.
Manifest read_format_1(const detail::TextSource& source, const std::string& name) {
  detail::Format1Text text(source, name);
  Manifest m = reading(name, [&] {
    if (nests_deeply(text.head())) fail("it nests too deeply");
    return manifest_from(Json::parse(text.head()));
  });
  for (std::optional<Shard> shard; (shard = text.next());) {
    m.files.push_back({shard->file, shard->bytes});
    m.state_bytes += shard->state_bytes();
    reading(name, [&] { return detail::check_shard(*shard, m, m.files.size() - 1), Manifest(); });
  }
  reading(name, [&] { return check_sizes(m), Manifest(); });
  return m;
}

Manifest read_file(const std::string& path) {
  const io::File file(path, io::File::Open::read);
  const detail::TextSource source = detail::source_of(file);
  std::string text(static_cast<std::size_t>(std::min<std::int64_t>(source.bytes, 256)), '\0');
  source.read(text.data(), text.size(), 0);
  if (detail::Format1Text::begins(text)) return read_format_1(source, path);
  if (source.bytes > most_manifest_bytes)
    fail_damaged(path, fmt::format("{} bytes, at most {} are expected", source.bytes, most_manifest_bytes));
  text.resize(static_cast<std::size_t>(source.bytes));
  source.read(text.data(), text.size(), 0);
  return detail::manifest_from_text(text, path);
}

/// Gives the text with zeros for its checksum, and the checksum. Throws when the text does not start as a
/// manifest does.
std::pair<std::string, std::string> split_checksum(std::string_view text, const std::string& name) {
  if (text.size() < prefix.size() + checksum_digits || text.substr(0, prefix.size()) != prefix) {
    fail_damaged(name, "it does not start as a manifest");
  }
  std::string zeroed(text);
  const std::string checksum = zeroed.substr(prefix.size(), checksum_digits);
  zeroed.replace(prefix.size(), checksum_digits, checksum_digits, '0');
  return {std::move(zeroed), checksum};
}

}  // namespace

std::string without_links(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int most_links = 40;  // as many as Linux follows; what opens a longer chain says so
  const io::StorageWait wait("resolve", path);
  fs::path at = path;
  for (int links = 0; links < most_links; ++links) {
    while (at.has_relative_path() && at.has_parent_path() && (!at.has_filename() || at.filename() == "."))
      at = at.parent_path();  // "latest/"
    std::error_code error;
    const fs::path target = fs::read_symlink(at, error);
    if (error == std::errc::invalid_argument || error == std::errc::no_such_file_or_directory ||
        error == std::errc::not_a_directory)
      break;  // it is no link
    if (error) io::fail_reading("resolve", path, error.value());
    at = at.parent_path() / target;
  }
  return at.string();
}

void check_named(const std::string& named, const std::string& place) {
  namespace fs = std::filesystem;
  const auto is_checkpoint = [](const std::string& dir) {
    return io::file_bytes(dir + "/" + manifest_name).has_value();
  };
  const std::string path = io::without_slashes(named);
  if (is_checkpoint(path)) return;
  const io::StorageWait wait("stat", path);
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::none) io::fail_reading("look at", path, error.value());
  WEFT_VALIDATE(type != fs::file_type::not_found, "{}there is no {}; name a checkpoint, .../step-N", place,
                path);
  for (const char* newest : {"/checkpoints/latest", "/latest"})
    WEFT_VALIDATE(!is_checkpoint(path + newest), "{}{} is not a checkpoint; did you mean {}{}?", place, path,
                  path, newest);
}

Manifest read_manifest(const std::string& dir) {
  const std::string resolved = without_links(dir);
  const std::string path = resolved + "/" + manifest_name;
  if (!io::file_bytes(path)) {
    fail(fmt::format("{} is not a checkpoint (it has no {}); name a directory step-N of a run", dir,
                     manifest_name));
  }
  Manifest manifest = read_file(path);
  manifest.dir = resolved;
  const std::string name = io::base_name(dir);
  if (detail::step_of(name).value_or(manifest.run.step) != manifest.run.step) {
    fail(fmt::format(
        "{} is the checkpoint of step {} (the directory was renamed, or the manifest is not its own); "
        "name it {}",
        dir, manifest.run.step, detail::step_name(manifest.run.step)));
  }
  return manifest;
}

Manifest read_manifest(const std::string& dir, const Hooks& hooks) {
  // Rank 0 sends format 1 as if it were 2, with its number and the directory in front.
  const std::string told = detail::from_root(hooks, [&] {
    const Manifest manifest = read_manifest(dir);
    return fmt::format("{} {}{}{}", manifest.version, manifest.dir, '\0', detail::to_text(manifest));
  });
  const std::size_t space = told.find(' '), end = told.find('\0');
  Manifest manifest = detail::manifest_from_text(std::string_view(told).substr(end + 1), dir);
  manifest.version = std::stoi(told.substr(0, space));
  manifest.dir = told.substr(space + 1, end - space - 1);
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
  if (Format1Text::begins(text)) return read_format_1(source_of(text), name);
  const auto [zeroed, checksum] = split_checksum(text, name);
  if (hex(hash_text(zeroed)) != checksum) fail_damaged(name, "its checksum does not match");
  int version = 0;
  Manifest manifest = reading(name, [&, &zeroed = zeroed] {
    if (nests_deeply(zeroed)) fail("it nests too deeply");
    const Json json = Json::parse(zeroed);
    if (json.at("format") != format_name) fail("it is not a checkpoint's manifest");
    version = small_integer(json.at("version"));
    if (version < 2) fail("it is not as format 1 was written");
    return version <= format_version ? from_format_2_on(json) : Manifest();
  });
  if (version > format_version)
    throw io::Unreadable(
        fmt::format("{} is of a newer format ({}; this Weft reads up to {}); use a newer Weft", name, version,
                    format_version));
  return manifest;
}

}  // namespace detail
}  // namespace weft::ckpt
