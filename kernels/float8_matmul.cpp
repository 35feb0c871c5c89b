#include "kernels/float8_matmul.hpp"

#include <mutex>
#include <stdexcept>

#include "base/align.hpp"
#include "base/device.hpp"
#include "base/log.hpp"
#include "kernels/float8.hpp"
#include "kernels/gpu_scratch.hpp"
#include "kernels/narrow_product.hpp"

namespace weft::kernels {

namespace {

/// The width of the rows of x.
std::int64_t width_of(const MatmulSpec& spec) {
  return spec.form == MatmulForm::forward ? spec.in : spec.out;
}

std::size_t x_bytes(const MatmulSpec& spec) {
  return aligned(static_cast<std::size_t>(spec.rows * width_of(spec)) * sizeof(bf16));
}

/// Decodes both operands into the scratch.
class DecodedProduct final : public Float8Matmul {
 public:
  explicit DecodedProduct(const Float8MatmulSpec& spec) : Float8Matmul(spec), product_(spec.shape) {}

  std::vector<std::string> algorithms(int /*most*/) const override { return {}; }
  std::string algorithm() const override { return {}; }
  bool take(const ProductAlgorithms& algorithms) override {
    return device_is_host() || !algorithms.contains(name_of(spec()));
  }

  std::size_t scratch_bytes() const override {
    return decoded_bytes(spec().shape) + product_.scratch_bytes();
  }

  void run(Space& space, const void* x8, const float* scale, const void* w8, const float* scale_of_w, void* y,
           void* scratch) override {
    const MatmulSpec& shape = spec().shape;
    auto* const x = static_cast<std::byte*>(scratch);
    std::byte* const w = x + x_bytes(shape);
    dequantize_rows(space, shape.rows, width_of(shape), spec().format, x8, scale, 1, x);
    dequantize_rows(space, shape.out, shape.in, DType::e4m3, w8, scale_of_w, 0, w);
    product_.run(space, x, w, y, x + decoded_bytes(shape));
  }

 private:
  Matmul product_;
};

}  // namespace

std::size_t decoded_bytes(const MatmulSpec& spec) {
  return x_bytes(spec) + aligned(static_cast<std::size_t>(spec.in * spec.out) * sizeof(bf16));
}

std::unique_ptr<Float8Matmul> make_float8_matmul(const MatmulSpec& spec, DType format, Float8Scales scales) {
  if (spec.form == MatmulForm::wgrad || spec.type != DType::bf16 || spec.result != DType::bf16)
    throw std::logic_error("a product in Float8 of another form, or with another result than bf16");
  if (auto narrow = make_narrow_product(spec, format, scales)) return narrow;
  if constexpr (!device_is_host()) {
    static std::once_flag once;
    std::call_once(once, [&] {
      const char* const why =
          !gpu::takes_float8(spec) ? " (16 does not divide both widths)"
          : scales == Float8Scales::rowwise
              ? " with a scale for each row (precision.float8_scales = \"tensorwise\" asks for less)"
              : "";
      log::warn_for_all(
          "this device has no product of {} by a weight [{}, {}] in Float8{}: such operands are decoded into "
          "bf16, which takes longer than bf16 itself",
          name_of(format), spec.out, spec.in, why);
    });
  }
  return std::make_unique<DecodedProduct>(Float8MatmulSpec{spec, format, scales});
}

}  // namespace weft::kernels
