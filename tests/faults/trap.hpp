// Catches the system calls on files of this process, whoever makes them: a seccomp filter answers each with
// SIGSYS, whose handler decides what to do instead. Thus the C library's own calls are caught, too.
#pragma once

#include "faults/system_calls.hpp"

namespace weft::faults {

/// Answers a call: what the kernel would return. Runs in a signal handler with all signals blocked, on any
/// thread, and must not call anything but call_kernel().
using Answer = long (*)(const SystemCall& call, Arguments arguments);

/// Before any other thread is started. A program that this process starts would be killed: the filter stays,
/// and its handler does not. Returns whether the kernel has taken it.
bool catch_system_calls(Answer answer);

}  // namespace weft::faults
