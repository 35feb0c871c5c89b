// Looks whether a file is there without waiting for the answer, because its file system may not give one.
#pragma once

#include <memory>
#include <string>

namespace weft::watch {

class Look {
 public:
  explicit Look(std::string path);

  /// Begins to look, on a thread of its own, unless an earlier look has not returned yet.
  void begin();
  /// Whether some look has found the file.
  bool found() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  ///< shared with a thread that may outlive this object
};

}  // namespace weft::watch
