#include "ckpt/verify.hpp"

#include "base/check.hpp"
#include "base/hash.hpp"
#include "ckpt/coverage.hpp"
#include "ckpt/fetch.hpp"
#include "ckpt/slices_file.hpp"
#include "io/file.hpp"

namespace weft::ckpt {

namespace {

void verify_index(const Manifest& manifest) {
  if (!manifest.index) return;
  const std::string path = manifest.dir + "/" + index_name;
  if (weft::hash_text(io::read_text(path)) != manifest.index->checksum) {
    throw Error(
        ExitCode::bad_checkpoint,
        fmt::format(
            "{} is damaged (checksum mismatch); restore it (Weft does not need it, h5dump and h5py do)",
            path));
  }
}

}  // namespace

std::vector<std::string> verify(const std::string& dir, bool direct_io) {
  std::vector<std::string> problems;
  try {
    const Manifest manifest = read_manifest(dir);
    detail::Coverage coverage(manifest.units);
    detail::for_each_shard(manifest, [&](const Shard& shard) {
      coverage.add(shard);
      for (auto& problem : find_damage(manifest, shard, direct_io)) problems.push_back(std::move(problem));
    });
    coverage.check();
    verify_index(manifest);
  } catch (const std::exception& e) {
    problems.emplace_back(e.what());
  }
  return problems;
}

}  // namespace weft::ckpt
