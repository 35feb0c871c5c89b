#include "kernels/matmul_spec.hpp"

namespace weft::kernels {

std::string name_of(const MatmulSpec& s) {
  const char* const form = s.form == MatmulForm::forward ? "forward"
                           : s.form == MatmulForm::dgrad ? "dgrad"
                                                         : "wgrad";
  return fmt::format("{}, {} rows, {} in, {} out, {} to {}{}", form, s.rows, s.in, s.out, name_of(s.type),
                     name_of(s.result), s.add ? ", added" : "");
}

}  // namespace weft::kernels
