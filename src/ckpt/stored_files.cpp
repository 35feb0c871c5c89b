#include "ckpt/stored_files.hpp"

#include <cstdint>

#include <fmt/format.h>

#include "io/file.hpp"

namespace weft::ckpt {

std::string look_at_files(Manifest& manifest, const Hooks& hooks) {
  const std::string problem = detail::from_root(hooks, [&]() -> std::string {
    try {
      detail::check_files(manifest);
    } catch (const io::Incomplete& e) {
      return e.what();
    }
    return {};
  });
  manifest.files_seen = problem.empty();
  return problem;
}

namespace detail {

void check_files(const Manifest& manifest) {
  const auto check = [&](const std::string& file, std::int64_t bytes) {
    const auto size = io::file_bytes(manifest.dir + "/" + file);
    const std::string name = io::base_name(manifest.dir);
    if (!size)
      throw io::Incomplete(
          fmt::format("{} of {} is missing (the manifest names it); restore it", file, name));
    if (*size != bytes)
      throw io::Incomplete(fmt::format("{} of {} is {} ({} bytes instead of {}); restore it", file, name,
                                       *size < bytes ? "truncated" : "too long", *size, bytes));
  };
  for (const StoredFile& file : manifest.files) check(file.name, file.bytes);
  if (manifest.version > 1) check(slices_name, manifest.slices.bytes);
}

void rethrow(const Manifest& manifest, const io::Incomplete& incomplete) {
  if (!manifest.files_seen) throw io::Incomplete(incomplete);
  const std::string what = incomplete.what();
  throw io::Unreadable(
      fmt::format("{}, though rank 0 has just seen all files of this checkpoint with their sizes; see to its "
                  "file system on this host, then start again",
                  what.substr(0, what.rfind("; "))));
}

}  // namespace detail
}  // namespace weft::ckpt
