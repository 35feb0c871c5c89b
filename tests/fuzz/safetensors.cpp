// The fuzz target for the header of safetensors files. Most of the time, what the fuzzer changes gets the
// right length. A file need not be as long as it says, so each is read at its own length, and at the length
// that its header names.
#include "hf/safetensors.hpp"

#include <charconv>
#include <cstring>
#include <set>
#include <string>

#include "fuzz.hpp"

using namespace weft;

namespace {

/// The largest number in the text: the end of the last tensor, if all is well.
std::uint64_t largest_number(std::string_view text) {
  std::uint64_t largest = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (error == std::errc()) largest = std::max(largest, number);
    at = std::max(at + 1, static_cast<std::size_t>(end - text.data()));
  }
  return largest;
}

void keeps_its_promises(const hf::Header& header, std::uint64_t file_bytes) {
  std::int64_t end = 0;
  std::set<std::string> names;
  for (const hf::Tensor& t : header.tensors) {
    fuzz::require(t.begin == end && t.bytes >= 0, "tensors stand side by side", t.name);
    fuzz::require(names.insert(t.name).second, "a name is of one tensor", t.name);
    end = t.begin + t.bytes;
  }
  const auto data_bytes = static_cast<std::int64_t>(file_bytes) - header.data_begin;
  fuzz::require(end == data_bytes, "tensors fill the file");
  const std::string printed = hf::header_text(header.tensors);
  hf::Header again;
  const auto bytes = static_cast<std::uint64_t>(data_bytes) + printed.size();
  fuzz::require(!fuzz::refused([&] { again = hf::parse_header(printed, bytes); }),
                "a printed header is a header", printed);
  fuzz::require(hf::header_text(again.tensors) == printed, "a printed header is the same header", printed);
}

void read(std::string_view input, std::uint64_t file_bytes) {
  hf::Header header;
  if (!fuzz::refused([&] { header = hf::parse_header(input, file_bytes, "file"); }))
    keeps_its_promises(header, file_bytes);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  const std::size_t brace = fuzz::text_of(data, size).rfind('}');
  if (seed % 16 != 0 && brace != std::string_view::npos && brace >= hf::length_bytes) {
    const std::uint64_t length = brace + 1 - hf::length_bytes;
    std::memcpy(data, &length, sizeof length);
  }
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  read(input, size);
  std::int64_t length = 0;
  if (!fuzz::refused([&] { length = hf::header_length(input, size, "file"); }))
    read(input, hf::length_bytes + static_cast<std::uint64_t>(length) +
                    largest_number(input.substr(hf::length_bytes)));
  return 0;
}
