#include "ckpt/shard.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "ckpt/json_fields.hpp"
#include "ckpt/manifest.hpp"

namespace weft::ckpt {

std::int64_t Shard::state_bytes() const {
  std::int64_t sum = 0;
  for (const ShardSlice& s : slices) sum += s.bytes();
  return sum;
}

namespace detail {

namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ExitCode::bad_checkpoint, message);
}

/// Takes a line apart from its beginning. It accepts only what to_line prints, so that it is fast enough for
/// hundreds of megabytes.
class Cursor {
 public:
  explicit Cursor(std::string_view line) : all_(line), left_(line) {}

  bool take(std::string_view text) {
    if (!left_.starts_with(text)) return false;
    left_.remove_prefix(text.size());
    return true;
  }
  void expect(std::string_view text) {
    if (!take(text)) refuse(fmt::format("'{}' is expected", text));
  }
  std::int64_t integer(std::uint64_t limit = most) { return static_cast<std::int64_t>(number(10, limit)); }
  std::uint64_t checksum() {
    expect("\"");
    const std::string_view before = left_;
    const std::uint64_t value = number(16, std::numeric_limits<std::uint64_t>::max());
    const std::string_view digits = before.substr(0, before.size() - left_.size());
    if (digits.size() != 16 || digits.find_first_of("ABCDEF") != std::string_view::npos)
      refuse("a checksum has 16 digits");
    expect("\"");
    return value;
  }
  /// Reads text in quotes, of printable characters that JSON writes as they are.
  std::string_view word() {
    expect("\"");
    const auto end = std::find_if(left_.begin(), left_.end(),
                                  [](char c) { return c == '"' || c == '\\' || c < ' ' || c == '\x7f'; });
    const std::string_view text(left_.data(), static_cast<std::size_t>(end - left_.begin()));
    left_.remove_prefix(text.size());
    expect("\"");
    return text;
  }
  /// Reads elements up to the closing bracket; the opening one has been taken.
  template <class Element>
  void list(Element&& element) {
    if (take("]")) return;
    do element();
    while (take(","));
    expect("]");
  }
  void end() const {
    if (!left_.empty()) refuse("more than a shard");
  }

 private:
  std::uint64_t number(int base, std::uint64_t limit) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), value, base);
    const auto digits = static_cast<std::size_t>(end - left_.data());
    const bool padded = base == 10 && digits > 1 && left_[0] == '0';
    if (error != std::errc() || value > limit || padded) refuse("a number of the right size is expected");
    left_.remove_prefix(digits);
    return value;
  }
  [[noreturn]] void refuse(std::string_view why) const {
    fail(fmt::format("byte {} of its description: {}", all_.size() - left_.size(), why));
  }

  std::string_view all_, left_;
};

ShardSlice slice_from(Cursor& in) {
  ShardSlice s;
  in.expect("[");
  s.role = role_from(in.word());
  in.expect(",");
  s.unit = static_cast<int>(in.integer(std::numeric_limits<int>::max()));
  in.expect(",");
  s.dtype = dtype_from(in.word());
  in.expect(",");
  s.begin = in.integer();
  in.expect(",");
  s.count = in.integer();
  in.expect(",");
  s.offset = in.integer();
  in.expect(",[");
  in.list([&] { s.checksums.push_back(in.checksum()); });
  in.expect("]");
  return s;
}

HeaderPart header_part_from(Cursor& in) {
  HeaderPart part;
  in.expect("[");
  part.offset = in.integer();
  in.expect(",");
  part.bytes = in.integer();
  in.expect(",");
  part.checksum = in.checksum();
  in.expect("]");
  return part;
}

bool fits(const ShardSlice& s, const Manifest& m) {
  if (static_cast<std::size_t>(s.unit) >= m.units.size() || s.count == 0) return false;
  if (s.begin + s.count > m.units[static_cast<std::size_t>(s.unit)].elements) return false;
  const std::int64_t slab = m.slab_bytes / static_cast<std::int64_t>(size_of(s.dtype));
  return static_cast<std::int64_t>(s.checksums.size()) == (s.count + slab - 1) / slab;
}

/// Whether the slices' bytes fit into the file. For format 1, which has no offsets, no more can be checked.
bool has_room(const Shard& shard) {
  std::int64_t room = shard.bytes;
  for (const ShardSlice& s : shard.slices) {
    room -= s.bytes();
    if (room < 0) return false;
  }
  return true;
}

/// Whether all parts of the file that hold something lie within it and do not overlap.
bool stands_apart(const Shard& shard) {
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  parts.reserve(shard.header.size() + shard.slices.size());
  for (const HeaderPart& p : shard.header) parts.emplace_back(p.offset, p.bytes);
  for (const ShardSlice& s : shard.slices) parts.emplace_back(s.offset, s.bytes());
  if (!std::is_sorted(parts.begin(), parts.end())) std::sort(parts.begin(), parts.end());
  std::int64_t end = 0;
  for (const auto& [offset, bytes] : parts) {
    if (offset < end || bytes > shard.bytes - offset) return false;
    end = offset + bytes;
  }
  return true;
}

}  // namespace

std::string to_line(const Shard& shard) {
  std::string line = fmt::format(R"({{"file":"{}","bytes":{},"header":[)", shard.file, shard.bytes);
  const char* separator = "";
  for (const HeaderPart& p : shard.header) {
    line += fmt::format(R"({}[{},{},"{:016x}"])", separator, p.offset, p.bytes, p.checksum);
    separator = ",";
  }
  line += R"(],"slices":[)";
  separator = "";
  for (const ShardSlice& s : shard.slices) {
    line += fmt::format(R"({}["{}",{},"{}",{},{},{},[)", separator, name_of(s.role), s.unit,
                        weft::name_of(s.dtype), s.begin, s.count, s.offset);
    for (std::size_t i = 0; i < s.checksums.size(); ++i)
      line += fmt::format(R"({}"{:016x}")", i == 0 ? "" : ",", s.checksums[i]);
    line += "]]";
    separator = ",";
  }
  return line += "]}";
}

Shard shard_from_line(std::string_view line) {
  Cursor in(line);
  Shard shard;
  in.expect(R"({"file":)");
  shard.file = in.word();
  in.expect(R"(,"bytes":)");
  shard.bytes = in.integer();
  in.expect(R"(,"header":[)");
  in.list([&] { shard.header.push_back(header_part_from(in)); });
  in.expect(R"(,"slices":[)");
  in.list([&] { shard.slices.push_back(slice_from(in)); });
  in.expect("}");
  in.end();
  return shard;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name[0] != '.' && name.find_first_of("/\"\\") == std::string_view::npos;
}

void check_shard(const Shard& shard, const Manifest& m, std::size_t index) {
  if (index >= m.files.size() || shard.file != m.files[index].name || shard.bytes != m.files[index].bytes)
    fail(fmt::format("{} does not describe file {} of the manifest", shard.file, index));
  const bool sane = std::all_of(shard.slices.begin(), shard.slices.end(),
                                [&m](const ShardSlice& s) { return fits(s, m); }) &&
                    (m.version == 1 ? has_room(shard) : stands_apart(shard));
  if (!sane) fail(fmt::format("the slices of {} contradict themselves, or the sizes of files", shard.file));
}

}  // namespace detail
}  // namespace weft::ckpt
