// Files that are read as memory. A page that is gone (another program has cut the file, or its storage does
// not answer) is a signal to who touches it, SIGBUS, and no error of a call.
#pragma once

#include <cstddef>
#include <string>

namespace weft::io {

/// While it lives, a SIGBUS within [data, data + size) ends the program with exit code 6 and a line that
/// names the file; any other goes to who handled it before. Any thread.
class MappedFileWatch {
 public:
  MappedFileWatch(const void* data, std::size_t size, const std::string& path);
  ~MappedFileWatch();
  MappedFileWatch(const MappedFileWatch&) = delete;
  MappedFileWatch& operator=(const MappedFileWatch&) = delete;

 private:
  int slot_;
};

}  // namespace weft::io
