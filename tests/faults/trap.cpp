#include "faults/trap.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" char weft_faults_behind_call;

namespace weft::faults {
namespace {

Answer g_answer = nullptr;

constexpr std::uint64_t sigsys_bit = std::uint64_t{1} << (SIGSYS - 1);

/// Does what rt_sigprocmask would do to the thread, except that SIGSYS stays open: a call that traps while it
/// is blocked kills the process, and the C library blocks all signals now and then. `mask` is that to which
/// the handler returns.
long change_mask(const Arguments& a, sigset_t& mask) {
  std::uint64_t now = 0, change = 0;
  std::memcpy(&now, &mask, sizeof now);
  if (a[2] != 0) std::memcpy(to_pointer<void>(a[2]), &now, sizeof now);
  if (a[1] == 0) return 0;
  std::memcpy(&change, to_pointer<const void>(a[1]), sizeof change);
  if (a[0] == SIG_BLOCK) now |= change;
  if (a[0] == SIG_UNBLOCK) now &= ~change;
  if (a[0] == SIG_SETMASK) now = change;
  now &= ~sigsys_bit;
  std::memcpy(&mask, &now, sizeof now);
  return 0;
}

void on_trap(int, siginfo_t*, void* context) {
  auto* const interrupted = static_cast<ucontext_t*>(context);
  greg_t* const r = interrupted->uc_mcontext.gregs;
  const Arguments a{r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]};
  const long number = r[REG_RAX];
  if (number == SYS_rt_sigprocmask) {
    r[REG_RAX] = change_mask(a, interrupted->uc_sigmask);
  } else if (const SystemCall* call = find_system_call(number)) {
    r[REG_RAX] = g_answer(*call, a);
  } else {
    r[REG_RAX] = call_kernel(number, a);
  }
}

/// The program of the filter. Conditions either hold, or skip what follows them.
class Filter {
 public:
  void load(std::size_t offset) {
    add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)));
  }
  void load_argument(int n) { load(offsetof(seccomp_data, args) + 8 * static_cast<std::size_t>(n)); }
  void unless_equal_skip(std::uint32_t value, unsigned char instructions) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, instructions));
  }
  void if_any_bit_skip(std::uint32_t bits, unsigned char instructions) {
    add(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, instructions, 0));
  }
  void allow() { add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)); }
  void trap() { add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)); }

  bool install() {
    const sock_fprog program{static_cast<unsigned short>(size_), program_.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  void add(sock_filter instruction) { program_.at(size_++) = instruction; }

  std::array<sock_filter, 256> program_{};
  std::size_t size_ = 0;
};

bool install_filter() {
  const auto behind = reinterpret_cast<std::uint64_t>(&weft_faults_behind_call);
  Filter f;
  f.load(offsetof(seccomp_data, instruction_pointer));
  f.unless_equal_skip(static_cast<std::uint32_t>(behind), 3);
  f.load(offsetof(seccomp_data, instruction_pointer) + 4);
  f.unless_equal_skip(static_cast<std::uint32_t>(behind >> 32), 1);
  f.allow();
  f.load(offsetof(seccomp_data, nr));
  f.unless_equal_skip(SYS_mmap, 4);  // only mappings of files
  f.load_argument(3);
  f.if_any_bit_skip(MAP_ANONYMOUS, 1);
  f.trap();
  f.allow();
  f.unless_equal_skip(SYS_fcntl, 8);  // only locks
  f.load_argument(1);
  for (const int lock : {F_SETLK, F_SETLKW, F_OFD_SETLK}) {
    f.unless_equal_skip(static_cast<std::uint32_t>(lock), 1);
    f.trap();
  }
  f.allow();
  f.unless_equal_skip(SYS_rt_sigprocmask, 1);
  f.trap();
  for (const SystemCall* call = begin_of_system_calls(); call != end_of_system_calls(); ++call) {
    f.unless_equal_skip(static_cast<std::uint32_t>(call->number), 1);
    f.trap();
  }
  f.allow();
  return f.install();
}

}  // namespace

bool catch_system_calls(Answer answer) {
  g_answer = answer;
  struct sigaction action {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigfillset(&action.sa_mask);
  return ::sigaction(SIGSYS, &action, nullptr) == 0 && install_filter();
}

}  // namespace weft::faults
