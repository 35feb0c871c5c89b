// Makes the place of a save: rank 0's work in the directory of checkpoints, before the ranks write and after
// they have written.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ckpt/directory.hpp"

namespace weft::ckpt::detail {

/// How many earlier checkpoints stay; SaveOptions explains both numbers.
struct Retention {
  std::int64_t keep = 2;
  std::int64_t keep_every = 0;
};

/// Makes the place for one checkpoint, and tidies up around it. What cannot be read, cleared or removed on
/// the way stays where it is, becomes a remark, and is no reason not to save. Everything else that fails is
/// an Error, and ends the save.
class SavePlace {
 public:
  SavePlace(std::string checkpoints_dir, std::int64_t step, Retention retention);

  /// Clears what interrupted saves left, checks that there is room for `needed` bytes, looks at the
  /// checkpoints that are there, and makes temporary().
  void prepare(std::int64_t needed);
  /// The directory that ranks write into; empty before prepare().
  const std::string& temporary() const { return temporary_; }
  /// The serial of the new checkpoint: higher than that of every checkpoint that is there.
  std::int64_t serial() const { return serial_; }
  /// Gives the directory its name, durably. A checkpoint of the same step that is not known to be whole, with
  /// all its files, is set aside.
  void publish();
  /// Removes what this save has begun; call it after a save that failed.
  void clear();
  /// Moves `latest`, and removes the checkpoints that are older than those to keep, but never the new one,
  /// and none that is not whole, with all its files. What fails becomes a remark, and the rest is done: a
  /// `latest` that cannot be moved must not fill the disk. Calls `stage` with "latest_moved" on the way.
  void tidy(const std::function<void(const char*)>& stage);

  /// What went wrong without ending the save: one line for each.
  const std::vector<std::string>& remarks() const { return remarks_; }
  void remark(std::string line);

 private:
  void remark(std::vector<std::string> lines);
  void remark_unreadable(const Entry& entry);
  void make_place() const;
  void check_room(std::int64_t needed) const;
  std::int64_t next_serial();

  std::string dir_;
  std::string name_;
  std::int64_t step_;
  Retention retention_;
  std::string temporary_;
  std::int64_t serial_ = 0;
  std::vector<Entry> earlier_;  ///< by their manifests alone
  bool replaced_is_left_ = false;
  std::vector<std::string> remarks_;
};

}  // namespace weft::ckpt::detail
