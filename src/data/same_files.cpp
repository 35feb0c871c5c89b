#include "data/same_files.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/check.hpp"

namespace weft::data {
namespace {

namespace fs = std::filesystem;

/// Where a path leads.
struct Place {
  const NamedFile* file;
  fs::path resolved;
  std::optional<std::pair<dev_t, ino_t>> inode;  ///< nothing where there is no file yet

  bool is(const Place& other) const {
    return resolved == other.resolved || (inode.has_value() && inode == other.inode);
  }
};

Place place_of(const NamedFile& file) {
  Place place{&file, {}, {}};
  // It is made absolute first, because a name that leads nowhere yet would stay relative.
  std::error_code unusable;
  const fs::path absolute = fs::absolute(file.path, unusable);
  place.resolved = fs::weakly_canonical(absolute, unusable);
  // Whoever opens a name that the system refuses to look at says so.
  if (unusable) place.resolved = absolute.lexically_normal();
  struct stat status {};
  if (::stat(file.path.c_str(), &status) == 0) place.inode.emplace(status.st_dev, status.st_ino);
  return place;
}

}  // namespace

void refuse_same_files(const std::vector<NamedFile>& written, const std::vector<NamedFile>& read) {
  std::vector<Place> places;
  for (const NamedFile& file : read) places.push_back(place_of(file));
  for (const NamedFile& file : written) {
    const Place place = place_of(file);
    for (const Place& other : places)
      WEFT_VALIDATE(!place.is(other),
                    "{} {} and {} {} are the same file (one would overwrite the other); choose other names",
                    file.what, file.path, other.file->what, other.file->path);
    places.push_back(place);
  }
}

}  // namespace weft::data
