// The element types of weights in safetensors files, and their conversion to and from fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::hf {

enum class Element : std::uint8_t { f32, bf16, f16 };

/// The type's name in safetensors' spelling: "F32", "BF16", "F16".
std::string_view name_of(Element element);
/// The inverse of name_of; nothing for types that weights do not have.
std::optional<Element> element_from(std::string_view name);
std::int64_t size_of(Element element);

/// Converts an IEEE 754 binary16 to fp32.
float half_to_float(std::uint16_t half);
/// Converts to binary16: rounds to nearest, ties to even. From 65520 on the result is infinite, and a NaN
/// stays a quiet NaN.
std::uint16_t float_to_half(float x);

/// Converts `n` elements at `from`, which need not be aligned, to fp32.
void to_f32(Element type, const std::byte* from, std::int64_t n, float* to);
/// Converts from fp32, and rounds to nearest, ties to even. Returns false when a finite value is out of the
/// type's range, where the result is infinite.
bool from_f32(Element type, const float* from, std::int64_t n, std::byte* to);

}  // namespace weft::hf
