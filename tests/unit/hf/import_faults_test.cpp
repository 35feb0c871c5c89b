// Tests an import on storage that loses the copy of the weights. Calls fail in a process of their own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "faults/places.hpp"
#include "faults/trap.hpp"
#include "unit/hf/model_dir.hpp"

namespace weft::hf {
namespace {

namespace fs = std::filesystem;
using namespace test;

bool is_of_the_copy(const faults::SystemCall& call, const faults::Arguments& arguments) {
  faults::Text name;
  return faults::name_of_file(call, arguments, name) &&
         std::string_view(name.data()).ends_with("/weights.tmp");
}

/// Storage has taken the bytes, and says only in fsync that it has lost them.
long fail_in_fsync(const faults::SystemCall& call, faults::Arguments arguments) {
  const bool fails = call.number == SYS_fsync && is_of_the_copy(call, arguments);
  return fails ? -EIO : faults::call_kernel(call.number, arguments);
}

/// The pages are gone by the time they are mapped. Only the descriptor that wrote them may cut the file.
long cut_before_mmap(const faults::SystemCall& call, faults::Arguments arguments) {
  static long writer = -1;
  if (call.number == SYS_pwrite64 && is_of_the_copy(call, arguments)) writer = arguments[0];
  if (call.number == SYS_mmap && is_of_the_copy(call, arguments))
    faults::call_kernel_with(SYS_ftruncate, writer, 0L);
  return faults::call_kernel(call.number, arguments);
}

/// What `weft checkpoint import` would end with.
int code_of_import(const weft::test::TemporaryDirectory& dir) {
  try {
    import_model(dir / "hf", dir / "in");
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return static_cast<int>(e.code());
  }
}

class ImportFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    export_weights(save_model(small_model(), dir_ / "run"), dir_ / "hf", {Element::f32, 1 << 30});
  }
  /// The exit status of a process that imports the model, and whose calls get this answer.
  int status_with(faults::Answer answer) const {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::alarm(20);
      const int err = ::open((dir_ / "err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
      if (::dup2(err, STDERR_FILENO) < 0) std::_Exit(90);
      faults::watch_directories(dir_.path().c_str());
      if (!faults::catch_system_calls(answer)) std::_Exit(91);
      std::_Exit(code_of_import(dir_));
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// Expects the code of the machine, one line with `text`, and no checkpoint.
  void expect_refused(faults::Answer answer, const std::string& text) const {
    EXPECT_EQ(status_with(answer), static_cast<int>(ExitCode::environment));
    const std::string err = weft::test::read_file(dir_ / "err");
    EXPECT_NE(err.find(text), std::string::npos) << err;
    EXPECT_EQ(err.find('\n'), err.size() - 1) << err;
    EXPECT_TRUE(fs::exists(dir_ / "in")) << "the import did not begin";
    for (const char* name : {"in/step-00000000", "in/latest", "in/weights.tmp"})
      EXPECT_FALSE(fs::exists(fs::symlink_status(dir_ / name))) << name;
  }

  const weft::test::TemporaryDirectory dir_;
};

/// Without an fsync the mapped pages would be read from storage again, as zeros, and saved with checksums.
TEST_F(ImportFaults, WeightsThatStorageLosesAreNotImported) {
  expect_refused(fail_in_fsync, "cannot fsync " + (dir_ / "in/weights.tmp") + " (Input/output error)");
}

TEST_F(ImportFaults, APageThatCannotBeReadIsOneLine) {
  expect_refused(cut_before_mmap, (dir_ / "in/weights.tmp") + ": a part of the file cannot be read any more");
}

}  // namespace
}  // namespace weft::hf
