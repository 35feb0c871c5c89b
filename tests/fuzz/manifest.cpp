// The fuzz target for a checkpoint's manifest, of format 1 and 2. Its first line is a checksum over all of
// it; most of the time, what the fuzzer changes gets the right one.
#include "ckpt/manifest.hpp"

#include <fmt/core.h>

#include <cstring>
#include <string>

#include "base/hash.hpp"
#include "ckpt/shard.hpp"
#include "fuzz.hpp"

using namespace weft;
using namespace weft::ckpt;

namespace {

constexpr std::string_view prefix = "{\n\"checksum\":\"";
constexpr std::size_t digits = 16;

void repair(std::uint8_t* data, std::size_t size) {
  if (size < prefix.size() + digits) return;
  std::memcpy(data, prefix.data(), prefix.size());
  std::memset(data + prefix.size(), '0', digits);
  const std::string checksum = fmt::format("{:016x}", hash_bytes(data, size));
  std::memcpy(data + prefix.size(), checksum.data(), digits);
}

/// Checks what the loader relies on without asking again.
void is_sane(const Manifest& manifest) {
  std::int64_t elements = 0;
  for (const Unit& unit : manifest.units) {
    elements += unit.elements;
    for (const Parameter& p : unit.parameters) {
      const bool inside =
          p.offset >= 0 && element_count(p.shape) > 0 && element_count(p.shape) <= unit.elements - p.offset;
      fuzz::require(inside, "a parameter stands in its unit", p.path);
    }
  }
  std::int64_t files = 0;
  for (const StoredFile& file : manifest.files) {
    files += file.bytes;
    fuzz::require(ckpt::detail::is_plain_name(file.name), "a file is of the directory", file.name);
  }
  fuzz::require(elements <= files && manifest.state_bytes <= files, "elements stand in files");
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 16 != 0) repair(data, size);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Manifest manifest;
  if (fuzz::refused(
          [&] { manifest = ckpt::detail::manifest_from_text(fuzz::text_of(data, size), "manifest"); }))
    return 0;
  const std::string printed = ckpt::detail::to_text(manifest);
  Manifest again;
  fuzz::require(!fuzz::refused([&] { again = ckpt::detail::manifest_from_text(printed, "printed"); }),
                "a printed manifest is a manifest", printed);
  fuzz::require(ckpt::detail::to_text(again) == printed, "a printed manifest is the same manifest", printed);
  is_sane(manifest);
  return 0;
}
