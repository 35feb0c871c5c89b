#include "base/dtype.hpp"

#include <array>
#include <utility>

#include "base/check.hpp"

namespace weft {
namespace {
constexpr std::array<std::pair<DType, std::string_view>, 11> names{{{DType::f32, "f32"},
                                                                    {DType::bf16, "bf16"},
                                                                    {DType::f64, "f64"},
                                                                    {DType::i32, "i32"},
                                                                    {DType::i64, "i64"},
                                                                    {DType::u16, "u16"},
                                                                    {DType::u32, "u32"},
                                                                    {DType::u64, "u64"},
                                                                    {DType::u8, "u8"},
                                                                    {DType::e4m3, "e4m3"},
                                                                    {DType::e5m2, "e5m2"}}};
}  // namespace

std::string_view name_of(DType t) {
  for (const auto& [type, name] : names)
    if (type == t) return name;
  return "?";
}

DType dtype_from(std::string_view name) {
  for (const auto& [type, n] : names)
    if (n == name) return type;
  WEFT_VALIDATE(false,
                "unknown element type '{}' (known: f32, bf16, f64, i32, i64, u16, u32, u64, u8, e4m3, e5m2)",
                name);
  return DType::f32;
}

}  // namespace weft
