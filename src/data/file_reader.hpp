// Reads parts of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "io/atomic_file.hpp"
#include "io/descriptor.hpp"

namespace weft::data {

/// An open file, for reading at any place. It may be used from several threads.
class FileReader {
 public:
  /// `what` is the file to the user ("token file"), for messages. Throws Error(environment) when it cannot be
  /// opened; where a user named it just now, Error(bad_input) for what is the user's mistake.
  FileReader(std::string what, std::string path, io::Named named);

  int fd() const { return file_.get(); }
  /// Bytes of a regular file. Throws Error(bad_input) for anything else.
  std::int64_t size() const;
  /// Reads exactly `bytes`. Throws Error(bad_input) when the file ends before them, and Error(environment)
  /// when storage cannot be read.
  void read(void* to, std::size_t bytes, std::int64_t offset) const;
  /// The first bytes, `most` at most. Throws what size() and read() throw.
  std::string beginning(std::size_t most) const;

 private:
  std::string what_, path_;
  io::Descriptor file_;
};

/// The first bytes of what a new file would replace, `most` at most; nothing where there is no regular file,
/// or an empty one. Where the system does not let anybody look, writing fails, too, and says why.
std::optional<std::string> beginning_of(const std::string& path, std::size_t most);

}  // namespace weft::data
