#include "kernels/matmul_spec.hpp"

#include "kernels/float8_matmul.hpp"

namespace weft::kernels {
namespace {

std::string shape_text(const MatmulSpec& s) {
  const char* const form = s.form == MatmulForm::forward ? "forward"
                           : s.form == MatmulForm::dgrad ? "dgrad"
                                                         : "wgrad";
  return fmt::format("{}, {} rows, {} in, {} out", form, s.rows, s.in, s.out);
}

const char* added_text(const MatmulSpec& s) {
  return s.add ? ", added" : "";
}

}  // namespace

std::string name_of(const MatmulSpec& s) {
  return fmt::format("{}, {} to {}{}", shape_text(s), name_of(s.type), name_of(s.result), added_text(s));
}

std::string name_of(const Float8MatmulSpec& s) {
  return fmt::format("{}, {} by {} to {}, {}{}", shape_text(s.shape), name_of(s.format), name_of(DType::e4m3),
                     name_of(s.shape.result), s.scales == Float8Scales::rowwise ? "rowwise" : "tensorwise",
                     added_text(s.shape));
}

}  // namespace weft::kernels
