// Refuses names that lead to one file, where a command would overwrite what it reads or has just written.
#pragma once

#include <string>
#include <vector>

namespace weft::data {

/// A file, and what it is to the user ("the training file").
struct NamedFile {
  std::string what;
  std::string path;
};

/// Throws Error(bad_input) when a written file is also another of the written files, or one of those that are
/// read. Names are compared as the file system resolves them, so that "./a" is "a"; for files that are there,
/// links count, too.
void refuse_same_files(const std::vector<NamedFile>& written, const std::vector<NamedFile>& read);

}  // namespace weft::data
