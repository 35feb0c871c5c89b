// A run directory in which tests of its lock play the part of other owners.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "job/run_lock.hpp"
#include "job/run_owner.hpp"
#include "support/temporary_directory.hpp"

namespace weft::job {

inline constexpr RunLock::Timing quick{std::chrono::milliseconds(20), std::chrono::milliseconds(1000)};

class LockDirectory : public testing::Test {
 protected:
  std::string lock() const { return dir_ / "lock"; }
  /// Puts the lock of a process on another host there.
  void put_foreign_lock() const {
    RunOwner owner = this_process();
    owner.host = "far";
    owner.kernel = "another";
    std::ofstream(lock()) << to_text(owner);
  }
  void make_old() const {
    std::filesystem::last_write_time(lock(),
                                     std::filesystem::file_time_type::clock::now() - std::chrono::minutes(5));
  }

  test::TemporaryDirectory dir_;
};

}  // namespace weft::job
