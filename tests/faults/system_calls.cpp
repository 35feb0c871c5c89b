#include "faults/system_calls.hpp"

#include <sys/syscall.h>

#include <algorithm>
#include <iterator>

extern "C" long weft_faults_call_kernel(long, long, long, long, long, long, long);

// The filter lets calls pass that are made from here, by the address behind the instruction.
asm(R"(
  .text
  .globl weft_faults_call_kernel
  .hidden weft_faults_call_kernel
  .type weft_faults_call_kernel, @function
weft_faults_call_kernel:
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov 8(%rsp), %r9
  syscall
  .globl weft_faults_behind_call
  .hidden weft_faults_behind_call
weft_faults_behind_call:
  ret
  .size weft_faults_call_kernel, . - weft_faults_call_kernel
)");

namespace weft::faults {
namespace {

constexpr Operand nothing{};
constexpr Operand descriptor(int argument) {
  return {argument, -1};
}
constexpr Operand path(int argument) {
  return {-1, argument};
}
/// An operand that is a path behind the descriptor of its directory.
constexpr Operand path_at(int argument) {
  return {argument, argument + 1};
}

constexpr SystemCall calls[] = {
    {SYS_open, "open", path(0), nothing},
    {SYS_creat, "creat", path(0), nothing},
    {SYS_openat, "openat", path_at(0), nothing},
    {SYS_openat2, "openat2", path_at(0), nothing},
    {SYS_read, "read", descriptor(0), nothing, Transfer::read},
    {SYS_pread64, "pread64", descriptor(0), nothing, Transfer::read},
    {SYS_readv, "readv", descriptor(0), nothing, Transfer::read},
    {SYS_preadv, "preadv", descriptor(0), nothing, Transfer::read},
    {SYS_preadv2, "preadv2", descriptor(0), nothing, Transfer::read},
    {SYS_write, "write", descriptor(0), nothing, Transfer::write},
    {SYS_pwrite64, "pwrite64", descriptor(0), nothing, Transfer::write},
    {SYS_writev, "writev", descriptor(0), nothing, Transfer::write},
    {SYS_pwritev, "pwritev", descriptor(0), nothing, Transfer::write},
    {SYS_pwritev2, "pwritev2", descriptor(0), nothing, Transfer::write},
    {SYS_copy_file_range, "copy_file_range", descriptor(0), descriptor(2)},
    {SYS_sendfile, "sendfile", descriptor(0), descriptor(1)},
    {SYS_lseek, "lseek", descriptor(0), nothing},
    {SYS_mmap, "mmap", descriptor(4), nothing},
    {SYS_fsync, "fsync", descriptor(0), nothing},
    {SYS_fdatasync, "fdatasync", descriptor(0), nothing},
    {SYS_sync_file_range, "sync_file_range", descriptor(0), nothing},
    {SYS_syncfs, "syncfs", descriptor(0), nothing},
    {SYS_fadvise64, "fadvise64", descriptor(0), nothing},
    {SYS_close, "close", descriptor(0), nothing},
    {SYS_rename, "rename", path(0), path(1)},
    {SYS_renameat, "renameat", path_at(0), path_at(2)},
    {SYS_renameat2, "renameat2", path_at(0), path_at(2)},
    {SYS_link, "link", path(0), path(1)},
    {SYS_linkat, "linkat", path_at(0), path_at(2)},
    {SYS_symlink, "symlink", path(1), nothing},
    {SYS_symlinkat, "symlinkat", path_at(1), nothing},
    {SYS_readlink, "readlink", path(0), nothing},
    {SYS_readlinkat, "readlinkat", path_at(0), nothing},
    {SYS_unlink, "unlink", path(0), nothing},
    {SYS_unlinkat, "unlinkat", path_at(0), nothing},
    {SYS_rmdir, "rmdir", path(0), nothing},
    {SYS_mkdir, "mkdir", path(0), nothing},
    {SYS_mkdirat, "mkdirat", path_at(0), nothing},
    {SYS_getdents, "getdents", descriptor(0), nothing},
    {SYS_getdents64, "getdents64", descriptor(0), nothing},
    {SYS_stat, "stat", path(0), nothing},
    {SYS_lstat, "lstat", path(0), nothing},
    {SYS_fstat, "fstat", descriptor(0), nothing},
    {SYS_newfstatat, "newfstatat", path_at(0), nothing},
    {SYS_statx, "statx", path_at(0), nothing},
    {SYS_access, "access", path(0), nothing},
    {SYS_faccessat, "faccessat", path_at(0), nothing},
    {SYS_faccessat2, "faccessat2", path_at(0), nothing},
    {SYS_statfs, "statfs", path(0), nothing},
    {SYS_fstatfs, "fstatfs", descriptor(0), nothing},
    {SYS_truncate, "truncate", path(0), nothing},
    {SYS_ftruncate, "ftruncate", descriptor(0), nothing},
    {SYS_fallocate, "fallocate", descriptor(0), nothing},
    {SYS_utime, "utime", path(0), nothing},
    {SYS_utimes, "utimes", path(0), nothing},
    {SYS_futimesat, "futimesat", path_at(0), nothing},
    {SYS_utimensat, "utimensat", path_at(0), nothing},
    {SYS_chmod, "chmod", path(0), nothing},
    {SYS_fchmod, "fchmod", descriptor(0), nothing},
    {SYS_fchmodat, "fchmodat", path_at(0), nothing},
    {SYS_flock, "flock", descriptor(0), nothing},
    {SYS_fcntl, "fcntl", descriptor(0), nothing},
    {SYS_chdir, "chdir", path(0), nothing},
};

}  // namespace

const SystemCall* begin_of_system_calls() {
  return std::begin(calls);
}
const SystemCall* end_of_system_calls() {
  return std::end(calls);
}

const SystemCall* find_system_call(long number) {
  const auto* found = std::find_if(std::begin(calls), std::end(calls),
                                   [&](const SystemCall& c) { return c.number == number; });
  return found == std::end(calls) ? nullptr : found;
}

long call_kernel(long number, const Arguments& a) {
  return weft_faults_call_kernel(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

}  // namespace weft::faults
