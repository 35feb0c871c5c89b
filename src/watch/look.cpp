#include "watch/look.hpp"

#include <atomic>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

namespace weft::watch {

struct Look::Shared {
  std::string path;
  std::atomic<bool> under_way{false};
  std::atomic<bool> found{false};
};

Look::Look(std::string path) : shared_(std::make_shared<Shared>()) {
  shared_->path = std::move(path);
}

void Look::begin() {
  if (shared_->under_way.exchange(true)) return;
  try {
    std::thread([shared = shared_] {
      std::error_code unknown;  // the next look may tell
      if (std::filesystem::exists(shared->path, unknown)) shared->found = true;
      shared->under_way = false;
    }).detach();
  } catch (const std::system_error&) {  // no thread can be made now; one may be for the next look
    shared_->under_way = false;
  }
}

bool Look::found() const {
  return shared_->found;
}

}  // namespace weft::watch
