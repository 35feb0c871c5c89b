// Element types of weights in safetensors files, and their way to and from fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::hf {

enum class Element : std::uint8_t { f32, bf16, f16 };

/// "F32", "BF16", "F16": safetensors' spelling.
std::string_view name_of(Element element);
/// The inverse; nothing for types that weights do not have.
std::optional<Element> element_from(std::string_view name);
std::int64_t size_of(Element element);

/// IEEE 754 binary16.
float half_to_float(std::uint16_t half);
/// Round to nearest, ties to even; infinite from 65520 on; a NaN stays a quiet NaN.
std::uint16_t float_to_half(float x);

/// `n` elements at `from`, which need not be aligned, to fp32.
void to_f32(Element type, const std::byte* from, std::int64_t n, float* to);
/// Rounds to nearest, ties to even. False when a finite value is out of the type's range, and infinite there.
bool from_f32(Element type, const float* from, std::int64_t n, std::byte* to);

}  // namespace weft::hf
