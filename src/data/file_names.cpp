#include "data/file_names.hpp"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/check.hpp"

namespace weft::data {
namespace {

std::vector<std::string> paths_of(const std::string& pattern) {
  glob_t found{};
  errno = 0;
  const int result = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  const int why = errno;
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  WEFT_VALIDATE(result != GLOB_NOMATCH && !(result == GLOB_ABORTED && why == ENOENT),
                "no file matches {} (none of this name{}); check the pattern, or make token files with `weft "
                "data tokenize`",
                pattern, looked_for_from(pattern));
  if (result != 0)
    throw Error(exit_code_of_named_file(why),
                fmt::format("cannot look for files that match {} ({}); check the path and who may read it",
                            pattern, std::strerror(why)));
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::vector<std::string> matching_paths(const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    if (name.find_first_of("*?") == name.npos)
      paths.push_back(name);
    else
      for (std::string& path : paths_of(name)) paths.push_back(std::move(path));
  }
  return paths;
}

std::string looked_for_from(const std::string& path) {
  std::error_code unknown;
  const std::filesystem::path directory = std::filesystem::current_path(unknown);
  if (unknown || std::filesystem::path(path).is_absolute()) return {};
  return ", looked for from " + directory.string();
}

}  // namespace weft::data
