#include "base/affinity.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace weft {
namespace {

cpu_set_t g_cpus_at_start;
long g_bytes_at_start = 0;

// libgomp binds the main thread in its library constructor, before any constructor of the program; only
// .preinit_array runs earlier. Sanitizers are not up yet at that point, hence the raw system call.
__attribute__((no_sanitize("thread", "address", "undefined"))) void remember_cpus(int, char**, char**) {
  g_bytes_at_start = syscall(SYS_sched_getaffinity, 0, sizeof g_cpus_at_start, &g_cpus_at_start);
}

[[gnu::used, gnu::section(".preinit_array")]] void (*const g_remember_cpus)(int, char**,
                                                                            char**) = remember_cpus;

}  // namespace

std::string cpus_at_start() {
  std::string cpus;
  for (int cpu = 0; cpu < 8 * g_bytes_at_start; ++cpu)
    cpus += CPU_ISSET(static_cast<std::size_t>(cpu), &g_cpus_at_start) ? '1' : '0';
  cpus.resize(cpus.find_last_of('1') + 1);
  return cpus;
}

void reset_affinity() {
  if (g_bytes_at_start > 0)
    sched_setaffinity(0, static_cast<std::size_t>(g_bytes_at_start), &g_cpus_at_start);
}

}  // namespace weft
