// Catches the system calls on files of this process, whoever makes them: a seccomp filter answers each with
// SIGSYS, whose handler decides what to do instead. So the C library's own calls are caught, too.
#pragma once

#include "faults/system_calls.hpp"

namespace weft::faults {

/// Answers a call with what the kernel would return. It runs in a signal handler with all signals blocked, on
/// any thread, and must call nothing but call_kernel().
using Answer = long (*)(const SystemCall& call, Arguments arguments);

/// Begins to catch calls; call it before any other thread is started. A program that this process starts
/// would be killed: the filter stays, and its handler does not. Returns whether the kernel has taken the
/// filter.
bool catch_system_calls(Answer answer);

}  // namespace weft::faults
