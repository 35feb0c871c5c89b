// Compiled as the rest of Weft is, and nothing but a number: no instruction of it is run before main.
#include "base/instruction_sets.hpp"
#include "base/processor.hpp"

namespace weft::processor {

// A macro that the compiler has defined is 1 where it is expanded, others stay their names.
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
