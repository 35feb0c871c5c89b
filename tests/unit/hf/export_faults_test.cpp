// Tests two exports to one place. The first stops in the middle, in a process of its own.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "faults/places.hpp"
#include "faults/trap.hpp"
#include "unit/hf/model_dir.hpp"

namespace weft::hf {
namespace {

using namespace test;
using weft::test::TemporaryDirectory;

std::array<int, 2> g_reached{}, g_released{};  // pipes

/// Tells the other process that all weights are written, and waits until it may go on.
long stop_at_config(const faults::SystemCall& call, faults::Arguments arguments) {
  faults::Text name;
  if (call.number == SYS_fsync && faults::name_of_file(call, arguments, name) &&
      std::string_view(name.data()).ends_with("/config.json")) {
    char byte = 'x';
    faults::call_kernel_with(SYS_write, g_reached[1], &byte, 1);
    faults::call_kernel_with(SYS_read, g_released[0], &byte, 1);
  }
  return faults::call_kernel(call.number, arguments);
}

TEST(Export, ASecondOneToTheSamePlaceIsRefused) {
  const TemporaryDirectory dir;
  const std::string checkpoint = save_model(small_model(), dir / "run");
  const auto write = [&](const std::string& name, Element dtype) {
    export_weights(checkpoint, dir / name, {dtype});
  };
  write("first", Element::f32);
  ASSERT_EQ(::pipe(g_reached.data()), 0);
  ASSERT_EQ(::pipe(g_released.data()), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(20);
    faults::watch_directories(dir.path().c_str());
    if (!faults::catch_system_calls(stop_at_config)) std::_Exit(91);
    write("out", Element::f32);
    std::_Exit(0);
  }
  ::close(g_reached[1]);
  char byte = 0;
  EXPECT_EQ(::read(g_reached[0], &byte, 1), 1);
  const std::string said = error_of([&] { write("out", Element::bf16); }, ExitCode::bad_input);
  EXPECT_NE(said.find("another export is making " + (dir / "out")), std::string::npos) << said;
  EXPECT_EQ(::write(g_released[1], &byte, 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(files_in(dir / "out") == files_in(dir / "first"));
  for (const int descriptor : {g_reached[0], g_released[0], g_released[1]}) ::close(descriptor);
}

}  // namespace
}  // namespace weft::hf
