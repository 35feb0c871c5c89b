#include "base/build_id.hpp"

#include <fmt/core.h>
#include <link.h>

#include <cstddef>
#include <cstring>

namespace weft {
namespace {

/// A note is a header, a name and a content, both padded to four bytes.
constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + 3) / 4 * 4;
}

std::string hex(const unsigned char* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

/// The build-id among the notes of a segment; empty when it is not there.
std::string find_build_id(const unsigned char* at, std::size_t bytes) {
  const unsigned char* const end = at + bytes;
  while (end - at >= static_cast<std::ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const unsigned char* const name = at + sizeof note;
    const unsigned char* const content = name + padded(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
      return hex(content, note.n_descsz);
    at = content + padded(note.n_descsz);
  }
  return {};
}

/// Called by dl_iterate_phdr; looks at the program itself, which comes first, and ends the iteration.
int look_at_program(dl_phdr_info* info, std::size_t /*size*/, void* result) {
  auto& id = *static_cast<std::string*>(result);
  for (int i = 0; i < info->dlpi_phnum && id.empty(); ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto address = info->dlpi_addr + segment.p_vaddr;
    id = find_build_id(reinterpret_cast<const unsigned char*>(address),  // NOLINT(performance-no-int-to-ptr)
                       segment.p_memsz);
  }
  return 1;
}

}  // namespace

std::string program_build_id() {
  std::string id;
  ::dl_iterate_phdr(look_at_program, &id);
  return id;
}

}  // namespace weft
