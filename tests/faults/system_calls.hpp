// Lists the system calls on files, and what each of them is about.
#pragma once

#include <array>
#include <concepts>

namespace weft::faults {

using Arguments = std::array<long, 6>;

/// A file that a call is about: by the descriptor in argument `directory`, or by the path in argument `path`,
/// which is relative to the descriptor in `directory` or, without one, to the working directory.
struct Operand {
  int directory = -1;
  int path = -1;
};

/// What a call does with bytes. Only these can be short.
enum class Transfer : unsigned char { none, read, write };

struct SystemCall {
  long number;
  const char* name;
  Operand first, second;  ///< `second` belongs to calls with two files
  Transfer transfer = Transfer::none;
};

/// The calls that tests count and let fail.
const SystemCall* begin_of_system_calls();
const SystemCall* end_of_system_calls();
/// Finds a call by its number; null for all other calls.
const SystemCall* find_system_call(long number);

/// Makes the call itself, which no trap catches. Returns what the kernel does: -errno for an error.
long call_kernel(long number, const Arguments& arguments);

/// Reads an argument as a pointer: the kernel takes numbers and addresses in the same registers.
template <class T>
T* to_pointer(long argument) {
  return reinterpret_cast<T*>(argument);  // NOLINT(performance-no-int-to-ptr)
}
inline long to_argument(const void* value) {
  return reinterpret_cast<long>(value);
}
inline long to_argument(std::integral auto value) {
  return static_cast<long>(value);
}

long call_kernel_with(long number, auto... values) {
  return call_kernel(number, Arguments{to_argument(values)...});
}

}  // namespace weft::faults
