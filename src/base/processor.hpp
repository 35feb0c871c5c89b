// The instruction sets that this program was built for, and those that the processor has. Nothing here may
// need more than the oldest processor of the architecture, nor call what may (no templates, no inline
// functions of libraries: the linker keeps one copy of these, perhaps a newer processor's).
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::processor {

/// A set of instruction sets, a bit each.
using Sets = std::uint64_t;

/// Those that the compiler could use wherever it liked (-march, WEFT_ARCH). AMX is not among them: compilers
/// do not use it unasked, and Weft looks before it does.
extern const Sets built_for;

/// Those that the processor has and the system saves the registers of.
Sets present();

/// Writes the names of the sets, "avx2, fma", and a zero; cuts what does not fit into `size` bytes.
void write_names(Sets sets, char* text, std::size_t size);

/// One set by its name; none where there is no such name.
Sets named(const char* name);

}  // namespace weft::processor
