// The instruction sets that this program was built for, and those that the processor has. The code here must
// need no more than the oldest processor of the architecture. It must not call anything that may need more,
// either: it uses no templates and no inline functions of libraries, because the linker keeps one copy of
// these, which may be for a newer processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::processor {

/// Some instruction sets, one bit for each.
using Sets = std::uint64_t;

/// The sets that the compiler could use wherever it liked (-march, WEFT_ARCH). AMX is not among them:
/// compilers do not use it unasked, and Weft looks for it before it does.
extern const Sets built_for;

/// The sets that the processor has, and whose registers the system saves.
Sets present();

/// Writes the names of the sets, "avx2, fma", and a zero; cuts what does not fit into `size` bytes.
void write_names(Sets sets, char* text, std::size_t size);

/// The instruction set of this name; no bit is set where there is no such name.
Sets named(const char* name);

}  // namespace weft::processor
