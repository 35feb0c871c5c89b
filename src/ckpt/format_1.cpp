#include "ckpt/format_1.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/nesting.hpp"
#include "base/quoted.hpp"
#include "ckpt/json_fields.hpp"

namespace weft::ckpt::detail {

namespace {

constexpr std::string_view prefix = "{\n\"checksum\":\"";
constexpr std::size_t checksum_digits = 16;
constexpr std::string_view version_line = "\",\n\"format\":\"weft-checkpoint\",\n\"version\":1,";
// The last key of the manifest. It is found by the line that it begins, because no string of JSON holds a
// line's end.
constexpr std::string_view shards_key = "\n\"shards\":[";
constexpr std::string_view end_of_shards = "]\n}\n";
constexpr std::size_t most_head_bytes = std::size_t{16} << 20;
constexpr std::size_t most_object_bytes = std::size_t{16} << 20;
constexpr std::int64_t copied_bytes = std::int64_t{1} << 18;

Shard shard_from(const Json& j) {
  Shard shard;
  shard.file = name_from(j.at("file"));
  shard.bytes = integer<std::int64_t>(j.at("bytes"));
  if (!is_plain_name(shard.file)) throw Error(ExitCode::bad_checkpoint, shard.file + " is no file's name");
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

}  // namespace

TextSource source_of(std::string_view text) {
  return {static_cast<std::int64_t>(text.size()), [text](char* to, std::size_t bytes, std::int64_t offset) {
            std::memcpy(to, text.data() + offset, bytes);
          }};
}

TextSource source_of(const io::File& file) {
  return {file.size(),
          [&file](char* to, std::size_t bytes, std::int64_t offset) { file.read_at(to, bytes, offset); }};
}

bool Format1Text::begins(std::string_view text) {
  return text.size() > prefix.size() + checksum_digits &&
         text.substr(prefix.size() + checksum_digits).starts_with(version_line);
}

Format1Text::Format1Text(TextSource source, std::string name)
    : source_(std::move(source)), name_(std::move(name)) {
  compare_checksum();
  read_head();
}

void Format1Text::compare_checksum() const {
  HashStream hash;
  std::string part, checksum;
  for (std::int64_t at = 0; at < source_.bytes; at += copied_bytes) {
    part.resize(static_cast<std::size_t>(std::min(copied_bytes, source_.bytes - at)));
    source_.read(part.data(), part.size(), at);
    if (at == 0 && part.size() >= prefix.size() + checksum_digits) {
      checksum = part.substr(prefix.size(), checksum_digits);
      part.replace(prefix.size(), checksum_digits, checksum_digits, '0');
    }
    hash.add(part.data(), part.size());
  }
  if (checksum != hex(hash.value())) refuse("its checksum does not match");
}

void Format1Text::read_head() {
  while (!head_.ends_with(shards_key)) {
    if (head_.size() == most_head_bytes) refuse("it has too much before its shards");
    head_ += take();
  }
  head_ += end_of_shards;
}

std::optional<Shard> Format1Text::next() {
  if (ended_) return std::nullopt;
  char c = take();
  if (c != ']') {
    if (!first_ && std::exchange(c, take()) != ',') refuse("its shards are not a list");
    first_ = false;
    return parse(object(c));
  }
  for (const char expected : end_of_shards.substr(1))
    if (take() != expected) refuse("its shards do not end as they should");
  if (has_more()) refuse("there is more behind its end");
  ended_ = true;
  return std::nullopt;
}

std::string Format1Text::object(char c) {
  if (c != '{') refuse("a shard is not described by an object");
  std::string text(1, c);
  bool in_string = false;
  for (int level = 1; level > 0;) {
    text += c = take();
    if (text.size() > most_object_bytes) refuse("the description of a shard is too long");
    if (c == '"')
      in_string = !in_string;
    else if (in_string && c == '\\')
      text += take();
    else if (!in_string)
      level += static_cast<int>(c == '{') - static_cast<int>(c == '}');
  }
  return text;
}

Shard Format1Text::parse(const std::string& object) const {
  if (nests_deeply(object)) refuse("it nests too deeply");
  std::string reason;
  try {
    return shard_from(Json::parse(object));
  } catch (const Json::exception& e) {
    reason = e.what();
  } catch (const Error& e) {
    reason = e.what();
  }
  refuse(reason);
}

bool Format1Text::has_more() {
  if (at_ < part_.size()) return true;
  const std::int64_t bytes = std::min(copied_bytes, source_.bytes - behind_);
  part_.resize(static_cast<std::size_t>(bytes));
  source_.read(part_.data(), part_.size(), behind_);
  behind_ += bytes;
  at_ = 0;
  return bytes > 0;
}

char Format1Text::take() {
  if (!has_more()) refuse("it ends too early");
  return part_[at_++];
}

void Format1Text::refuse(const std::string& why) const {
  throw Error(ExitCode::bad_checkpoint,
              one_line(fmt::format("{} is damaged ({}); restore the file, or resume from an older checkpoint",
                                   name_, why)));
}

}  // namespace weft::ckpt::detail
