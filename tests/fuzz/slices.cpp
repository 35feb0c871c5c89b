// The fuzz target for a block of slices.jsonl: descriptions of shards, each checked against a manifest. Its
// checksum is no barrier, because anyone can compute it.
#include <string>
#include <utility>
#include <vector>

#include "ckpt/coverage.hpp"
#include "ckpt/slices_file.hpp"
#include "fuzz.hpp"

using namespace weft;
using namespace weft::ckpt;

namespace {

Manifest manifest() {
  Manifest m;
  m.dir = "dir";
  m.slab_bytes = 64;
  m.units = {Unit{"a", {}, 100}, Unit{"b", {}, 33}};
  m.files = {{"shard-00000.h5", 4096}, {"shard-00001.h5", 2048}};
  return m;
}

/// Checks what the loader relies on without asking again.
void is_sane(const Manifest& m, const Shard& shard) {
  std::vector<char> used(static_cast<std::size_t>(shard.bytes));
  const auto use = [&](std::int64_t offset, std::int64_t bytes) {
    fuzz::require(offset >= 0 && bytes >= 0 && bytes <= shard.bytes - offset, "a part is in its file");
    for (std::int64_t i = offset; i < offset + bytes; ++i)
      fuzz::require(std::exchange(used[static_cast<std::size_t>(i)], 1) == 0, "a byte is of one part");
  };
  for (const HeaderPart& part : shard.header) use(part.offset, part.bytes);
  for (const ShardSlice& s : shard.slices) {
    use(s.offset, s.bytes());
    const Unit& unit = m.units.at(static_cast<std::size_t>(s.unit));
    fuzz::require(s.begin >= 0 && s.count > 0 && s.begin + s.count <= unit.elements,
                  "a slice is of its unit");
    const std::int64_t slab = m.slab_bytes / static_cast<std::int64_t>(size_of(s.dtype));
    fuzz::require(static_cast<std::int64_t>(s.checksums.size()) == (s.count + slab - 1) / slab,
                  "each slab has a checksum");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Manifest m = manifest();
  const std::string_view block = fuzz::text_of(data, size);
  ckpt::detail::Coverage coverage(m.units);
  std::string printed;
  std::size_t index = 0;
  const bool refused = fuzz::refused([&] {
    ckpt::detail::read_lines(block, m, index, [&](const Shard& shard) {
      is_sane(m, shard);
      printed += ckpt::detail::to_line(shard) + '\n';
    });
  });
  fuzz::require(index <= m.files.size(), "there are no more shards than files");
  if (refused) return 0;
  const bool ended = block.empty() || block.back() == '\n';
  fuzz::require(printed == std::string(block) + (ended ? "" : "\n"), "what is read is what is printed",
                printed);
  index = 0;
  fuzz::refused([&] {
    ckpt::detail::read_lines(block, m, index, [&](const Shard& shard) { coverage.add(shard); });
    coverage.check();
  });
  return 0;
}
