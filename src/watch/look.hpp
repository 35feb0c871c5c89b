// Whether a file is there, asked without waiting for the answer: its file system may not give one.
#pragma once

#include <memory>
#include <string>

namespace weft::watch {

class Look {
 public:
  explicit Look(std::string path);

  /// Begins to look, on a thread of its own, unless an earlier look has not come back.
  void begin();
  /// Whether a look has found the file.
  bool found() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  ///< with a thread that may outlive this
};

}  // namespace weft::watch
