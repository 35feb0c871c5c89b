// The program `weft` of a portable build (the preset `portable`): it becomes the program for its processor,
// which stands below libexec/weft under the name of a level of x86-64 (section 3.1.1 of the x86-64 psABI).
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

namespace {

namespace fs = std::filesystem;

constexpr int usage = 2, environment = 6;  // the values of weft::ExitCode

[[noreturn]] void fail(int status, const std::string& text) {
  std::fprintf(stderr, "weft: error: %s\n", text.c_str());
  std::exit(status);
}

fs::path folder_of_programs() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) fail(environment, "cannot read /proc/self/exe: " + error.message());
  return self.parent_path().parent_path() / "libexec/weft";
}

struct Level {
  const char* name;
  bool runs_here;
};

/// The program of the level that WEFT_LEVEL asks for, else of the highest one that this processor has.
fs::path choose(const fs::path& programs) {
  __builtin_cpu_init();
  const Level levels[] = {{"x86-64-v4", __builtin_cpu_supports("x86-64-v4") != 0},
                          {"x86-64-v3", __builtin_cpu_supports("x86-64-v3") != 0},
                          {"x86-64-v2", __builtin_cpu_supports("x86-64-v2") != 0}};
  const char* const asked = std::getenv("WEFT_LEVEL");
  std::string able;  // the levels that could run
  std::error_code error;
  for (const Level& level : levels) {
    if (!level.runs_here) continue;
    const bool is_there = fs::exists(programs / level.name, error);
    if (error) fail(environment, "cannot look into " + programs.string() + ": " + error.message());
    if (!is_there) continue;
    if (asked == nullptr || std::strcmp(asked, level.name) == 0) return programs / level.name;
    able += std::string(able.empty() ? "" : ", ") + level.name;
  }
  if (able.empty())
    fail(environment, "none of the programs in " + programs.string() + " is for this processor");
  fail(usage, "WEFT_LEVEL is '" + std::string(asked) + "'; here it can be " + able);
}

}  // namespace

int main(int /*argc*/, char** argv) {
  const fs::path program = choose(folder_of_programs());
  ::execv(program.c_str(), argv);
  fail(environment, "cannot start " + program.string() + ": " + std::strerror(errno));
}
