#include "ckpt/save_place.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.hpp"
#include "ckpt/attempt.hpp"
#include "ckpt/publish.hpp"
#include "io/file.hpp"
#include "io/storage_wait.hpp"

namespace weft::ckpt::detail {

namespace fs = std::filesystem;

SavePlace::SavePlace(std::string checkpoints_dir, std::int64_t step, Retention retention)
    : dir_(std::move(checkpoints_dir)), name_(step_name(step)), step_(step), retention_(retention) {}

void SavePlace::remark(std::string line) {
  if (!line.empty()) remarks_.push_back(std::move(line));
}

void SavePlace::remark(std::vector<std::string> lines) {
  for (std::string& line : lines) remark(std::move(line));
}

void SavePlace::prepare(std::int64_t needed) {
  make_place();
  remark(remove_unfinished(dir_));
  check_room(needed);
  earlier_ = scan(dir_, Look::at_manifest);
  const auto is_replaced = [](const Entry& entry) { return entry.name.ends_with(replaced_suffix); };
  if (std::any_of(earlier_.begin(), earlier_.end(), is_replaced)) {
    remark(settle_replaced(dir_, earlier_));
    earlier_ = scan(dir_, Look::at_manifest);
  }
  if (earlier_.empty()) sync_ancestors(dir_);  // they may be as new as the run
  serial_ = next_serial();
  temporary_ = make_unfinished(dir_, name_);
}

void SavePlace::make_place() const {
  const io::StorageWait wait("mkdir", dir_);
  std::error_code error;
  fs::create_directories(dir_, error);
  if (error) io::fail_errno("make", dir_, error.value());
}

void SavePlace::check_room(std::int64_t needed) const {
  const std::int64_t free = io::free_bytes(dir_);
  if (needed <= free) return;
  throw Error(
      ExitCode::bad_checkpoint,
      fmt::format("not enough space in {} ({} bytes are free, a checkpoint needs {}); free some, or lower "
                  "checkpoint.keep",
                  dir_, free, needed));
}

/// The serial of the new checkpoint. The clock stands in for checkpoints that storage does not let us read
/// just now, because they were saved before.
std::int64_t SavePlace::next_serial() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::int64_t serial = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  for (const Entry& entry : earlier_) {
    serial = std::max(serial, entry.serial + 1);
    if (entry.name != name_) remark_unreadable(entry);
  }
  return serial;
}

void SavePlace::remark_unreadable(const Entry& entry) {
  if (entry.condition == Condition::unreadable)
    remark(fmt::format("{}/{} is left alone: {}", dir_, entry.name, entry.problem));
}

void SavePlace::publish() {
  for (const Entry& entry : earlier_) {
    if (entry.name != name_) continue;
    const Entry now = look_at(dir_, name_, Look::at_files);
    if (now.condition != Condition::whole)
      remark(fmt::format("the {} checkpoint {}/{} is now {} ({})",
                         now.condition == Condition::damaged ? "damaged" : "unreadable", dir_, name_,
                         set_aside(dir_, name_, now.condition), now.problem));
  }
  replaced_is_left_ = detail::publish(dir_, temporary_, name_);
  temporary_.clear();  // it is the new checkpoint, or the earlier one: not for clear()
  try {
    io::sync_directory(dir_);
  } catch (const Error& e) {
    throw Error(e.code(),
                fmt::format("{}; {}/{} is there, and may be lost if the power fails", e.what(), dir_, name_));
  }
}

void SavePlace::clear() {
  if (!temporary_.empty()) remark(remove_all(temporary_));
}

void SavePlace::tidy(const std::function<void(const char*)>& stage) {
  remark(attempt([this] { move_latest(dir_, name_); }));
  stage("latest_moved");
  remark(attempt([this] { remark(remove_unfinished(dir_)); }));
  std::int64_t kept = 1;
  for (const Entry& entry : earlier_) {
    if (entry.condition != Condition::whole || entry.step == step_) continue;
    const bool stays = retention_.keep_every > 0 && entry.step % retention_.keep_every == 0;
    if (retention_.keep == 0 || stays || ++kept <= retention_.keep) continue;
    remark(attempt([&] {
      const Entry now = look_at(dir_, entry.name, Look::at_files);
      if (now.condition == Condition::whole) remark(remove_checkpoint(dir_, entry.name));
      remark_unreadable(now);
    }));
  }
  if (replaced_is_left_)
    remark(attempt([this] { remark(remove_checkpoint(dir_, name_ + replaced_suffix)); }));
}

}  // namespace weft::ckpt::detail
