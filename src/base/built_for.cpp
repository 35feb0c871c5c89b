// The instruction sets that this program was built for, as a number that the compiler computes. This file is
// compiled with the same flags as the rest of Weft, so it must hold no code that runs before main().
#include "base/instruction_sets.hpp"
#include "base/processor.hpp"

namespace weft::processor {

// A macro that the compiler has defined expands to 1. One that it has not defined expands to its own name.
#define WEFT_TEXT_OF(x) #x
#define WEFT_TEXT(x) WEFT_TEXT_OF(x)
#define WEFT_ADD(macro, name, leaf, subleaf, register, bit, saved) \
  sets |= WEFT_TEXT(macro)[0] == '1' ? next : 0;                   \
  next <<= 1;

constexpr Sets all_built_for() {
  Sets sets = 0, next = 1;
  WEFT_INSTRUCTION_SETS(WEFT_ADD)
  return sets;
}

constinit const Sets built_for = all_built_for();

}  // namespace weft::processor
