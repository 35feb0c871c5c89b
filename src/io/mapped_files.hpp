// Watches files that are read as memory. When a page is gone (another program has cut the file, or its
// storage does not answer), no call returns an error: the thread that touches the page gets a signal, SIGBUS.
#pragma once

#include <cstddef>
#include <string>

namespace weft::io {

/// While it lives, a SIGBUS within [data, data + size) ends the program with exit code 6 and a line that
/// names the file. Any other SIGBUS goes to the earlier handler. It may be used on any thread.
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
