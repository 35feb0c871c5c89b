#include "ckpt/description.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace weft::ckpt::detail {

Description::Description(const std::string& dir, const Manifest& manifest)
    : coverage_(manifest.units), writer_(dir + "/" + slices_name) {}

void Description::add(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    writer_.add(line);
    Shard shard = shard_from_line(line);
    coverage_.add(shard);
    files_.push_back({shard.file, shard.bytes});
    state_bytes_ += shard.state_bytes();
    slices_ += shard.slices.size();
    if (slices_ > most_indexed_slices) {
      indexed_ = {};
      continue;
    }
    for (ShardSlice& s : shard.slices) s.checksums = {};
    indexed_.push_back(std::move(shard));
  }
}

void Description::finish(Manifest& manifest) {
  coverage_.check();
  manifest.files = std::move(files_);
  manifest.state_bytes = state_bytes_;
  manifest.slices = writer_.finish();
}

int ranks_at_once(std::size_t longest_line) {
  const std::size_t ranks = 2 * block_bytes / std::max<std::size_t>(1, longest_line);
  return static_cast<int>(std::clamp<std::size_t>(ranks, 1, std::numeric_limits<int>::max()));
}

}  // namespace weft::ckpt::detail
