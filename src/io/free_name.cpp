#include "io/free_name.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/check.hpp"

namespace weft::io {

std::string free_name(const std::string& path) {
  std::string name = path;
  for (int i = 2;; ++i) {
    struct stat status {};
    if (::lstat(name.c_str(), &status) != 0) {
      WEFT_SYSTEM(errno == ENOENT, "cannot look at {} ({}); choose another run.dir", name,
                  std::strerror(errno));
      return name;
    }
    name = fmt::format("{}-{}", path, i);
  }
}

}  // namespace weft::io
