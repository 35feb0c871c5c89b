#include "base/processor.hpp"

#include <cpuid.h>

#include "base/instruction_sets.hpp"

namespace weft::processor {
namespace {

enum Register { eax, ebx, ecx, edx };
/// The bits of XCR0 that stand for the registers an instruction set works on.
enum Saved : unsigned { xmm = 0, ymm = 0x6, zmm = 0xe6 };

struct Entry {
  const char* name;
  unsigned leaf, subleaf;
  Register place;
  unsigned bit;
  Saved saved;
};

#define WEFT_ENTRY(macro, name, leaf, subleaf, register, bit, saved) \
  {name, leaf, subleaf, register, bit, saved},
const Entry entries[] = {WEFT_INSTRUCTION_SETS(WEFT_ENTRY)};
constexpr std::size_t entry_count = sizeof entries / sizeof entries[0];
static_assert(entry_count <= 64);

/// The vector registers that the operating system saves, as XCR0 says.
unsigned saved_registers() {
  constexpr unsigned osxsave = 1U << 27;
  unsigned r[4] = {};
  if (__get_cpuid(1, &r[0], &r[1], &r[2], &r[3]) == 0 || (r[ecx] & osxsave) == 0) return 0;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool has(const Entry& e, unsigned saved) {
  unsigned r[4] = {};
  if (__get_cpuid_count(e.leaf, e.subleaf, &r[0], &r[1], &r[2], &r[3]) == 0) return false;
  return (r[e.place] >> e.bit & 1U) != 0 && (saved & e.saved) == e.saved;
}

bool equal(const char* a, const char* b) {
  for (; *a != 0 && *a == *b; ++a) ++b;
  return *a == *b;
}

}  // namespace

Sets present() {
  const unsigned saved = saved_registers();
  Sets sets = 0;
  for (std::size_t i = 0; i < entry_count; ++i)
    if (has(entries[i], saved)) sets |= Sets{1} << i;
  return sets;
}

void write_names(Sets sets, char* text, std::size_t size) {
  std::size_t at = 0;
  const auto add = [&](const char* part) {
    for (; *part != 0 && at + 1 < size; ++part) text[at++] = *part;
  };
  for (std::size_t i = 0; i < entry_count; ++i) {
    if ((sets >> i & 1U) == 0) continue;
    if (at > 0) add(", ");
    add(entries[i].name);
  }
  text[at] = 0;
}

Sets named(const char* name) {
  for (std::size_t i = 0; i < entry_count; ++i)
    if (equal(entries[i].name, name)) return Sets{1} << i;
  return 0;
}

}  // namespace weft::processor
