// The fuzz target for a shard file that is read by a description. The input is a line of slices.jsonl, then
// the bytes of the file. HDF5 is not asked: its `locate` is replaced here by one that ends the process.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "ckpt/fetch.hpp"
#include "ckpt/locate.hpp"
#include "fuzz.hpp"
#include "io/file.hpp"

using namespace weft;
using namespace weft::ckpt;

namespace weft::ckpt::detail {

std::vector<std::int64_t> locate(const std::string& path, const std::vector<const ShardSlice*>& /*slices*/,
                                 const std::vector<Unit>& /*units*/) {
  fuzz::require(false, "HDF5 opens no shard of format 2", path);
  return {};
}

}  // namespace weft::ckpt::detail

namespace {

constexpr std::int64_t slab_bytes = 32;

/// Sets the right checksums for what the file has, so that most inputs get past them.
void repair(Shard& shard, std::string_view bytes) {
  const auto hash = [&](std::int64_t offset, std::int64_t count) {
    return hash_text(bytes.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(count)));
  };
  for (HeaderPart& part : shard.header) part.checksum = hash(part.offset, part.bytes);
  for (ShardSlice& s : shard.slices) {
    const std::int64_t slab = slab_bytes / static_cast<std::int64_t>(size_of(s.dtype)) *
                              static_cast<std::int64_t>(size_of(s.dtype));
    for (std::size_t i = 0; i < s.checksums.size(); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(i) * slab;
      s.checksums[i] = hash(s.offset + at, std::min(slab, s.bytes() - at));
    }
  }
}

/// Reads all of the slices, and compares each byte with the file's.
void read_all(const Manifest& m, const Shard& shard, std::string_view bytes) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<ckpt::Request> requests;
  for (const ShardSlice& s : shard.slices) {
    memory.emplace_back(static_cast<std::size_t>(s.bytes()));
    requests.push_back({s.role, s.unit, s.dtype, s.begin, s.count, memory.back().data(), {}});
  }
  ckpt::Fetcher fetcher(m, requests);
  if (fuzz::refused([&] {
        fetcher.take(shard);
        fetcher.finish();
      }))
    return;
  for (std::size_t i = 0; i < memory.size(); ++i)
    fuzz::require(std::memcmp(memory[i].data(), bytes.data() + shard.slices[i].offset, memory[i].size()) == 0,
                  "what is read is what the file has");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all = fuzz::text_of(data, size);
  const std::string_view line = all.substr(0, all.find('\n'));
  const std::string_view bytes = all.substr(std::min(all.size(), line.size() + 1));
  Manifest m;
  m.dir = "/dev/shm";
  m.slab_bytes = slab_bytes;
  m.units = {Unit{"a", {}, 100}, Unit{"b", {}, 33}};
  Shard shard;
  if (fuzz::refused([&] { shard = ckpt::detail::shard_from_line(line); })) return 0;
  shard.file = "weft-fuzz-" + std::to_string(::getpid());
  m.files = {{shard.file, shard.bytes}};
  if (fuzz::refused([&] { ckpt::detail::check_shard(shard, m, 0); })) return 0;
  const std::string path = m.dir + "/" + shard.file;
  io::write_text_durably(path, bytes);
  const bool repaired =
      !bytes.empty() && bytes.back() != 'x' && static_cast<std::int64_t>(bytes.size()) == shard.bytes;
  if (repaired) repair(shard, bytes);
  const std::vector<std::string> damage = ckpt::find_damage(m, shard, false);
  for (const std::string& problem : damage)
    fuzz::require(problem.find('\n') == std::string::npos, "a problem is one line", problem);
  fuzz::require(static_cast<std::int64_t>(bytes.size()) == shard.bytes || damage.size() == 1,
                "a file of another size is one damage");
  read_all(m, shard, bytes);
  ::unlink(path.c_str());
  return 0;
}
