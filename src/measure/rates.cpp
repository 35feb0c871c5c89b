#include "measure/rates.hpp"

#include "base/clock.hpp"
#include "base/device.hpp"
#include "kernels/attention.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/memory.hpp"
#include "kernels/narrow_product.hpp"
#include "measure/noise.hpp"
#include "measure/timing.hpp"

namespace weft::measure {
namespace {

constexpr int repeats = 5;

/// Rows and columns of the square products, which take tens of milliseconds on a core, and milliseconds on a
/// GPU.
std::int64_t product_size() {
  return device_is_host() ? 1024 : 8192;
}

/// Attention that takes milliseconds on a core, and on a GPU as many FLOP as the products.
kernels::AttentionShape attention_shape() {
  if (device_is_host()) return {1, 1024, 8, 8, 64};
  return {2, 8192, 32, 32, 128};
}

kernels::MatmulSpec product(runtime::Session& session, DType type) {
  kernels::MatmulSpec spec{};
  spec.f32_products = session.matmuls().f32_products();
  spec.form = kernels::MatmulForm::forward;
  spec.rows = spec.in = spec.out = product_size();
  spec.type = spec.result = type;
  return spec;
}

kernels::Buffer buffer(std::int64_t elements, DType type) {
  return {static_cast<std::size_t>(elements) * size_of(type), "weft::measure::rates"};
}

/// Collective: seconds of a kernel on the slowest rank, until its end.
double time_kernel(runtime::Session& session, const std::function<void()>& kernel) {
  const auto whole = [&] {
    kernel();
    kernels::fence(session.space());
  };
  whole();
  return time_together(session.world(), repeats, whole);
}

double product_rate(runtime::Session& session, const Noise& noise, DType type) {
  const std::int64_t n = product_size();
  kernels::Matmul matmul(product(session, type));  // not of the session, whose products are the deck's
  const kernels::Buffer a = noise.buffer(n * n, type), b = noise.buffer(n * n, type), c = buffer(n * n, type);
  const kernels::Buffer scratch(matmul.scratch_bytes(), "weft::measure::rates");
  const double seconds = time_kernel(
      session, [&] { matmul.run(session.space(), a.data(), b.data(), c.data(), scratch.data()); });
  return 2.0 * static_cast<double>(n * n * n) / seconds;
}

/// The rate of products in Float8 by the device's library; 0 where it has none.
double float8_rate(runtime::Session& session, const Noise& noise, Float8Scales scales) {
  const std::int64_t n = product_size();
  const auto matmul = kernels::make_narrow_product(product(session, DType::bf16), DType::e4m3, scales);
  if (!matmul) return 0;
  const kernels::Buffer x = noise.buffer(n * n, DType::e4m3), w = noise.buffer(n * n, DType::e4m3),
                        y = buffer(n * n, DType::bf16), scale = noise.scales(n);
  const kernels::Buffer scratch(matmul->scratch_bytes(), "weft::measure::rates");
  const auto* const all = reinterpret_cast<const float*>(scale.data());
  const double seconds = time_kernel(
      session, [&] { matmul->run(session.space(), x.data(), all, w.data(), all, y.data(), scratch.data()); });
  return 2.0 * static_cast<double>(n * n * n) / seconds;
}

double attention_rate(runtime::Session& session, const Noise& noise) {
  const kernels::AttentionShape shape = attention_shape();
  const std::int64_t n = shape.batch * shape.seq * shape.heads * shape.head_dim;
  const DType type = DType::bf16;
  const kernels::Buffer q = noise.buffer(n, type), k = noise.buffer(n, type), v = noise.buffer(n, type),
                        o = buffer(n, type);
  const kernels::Buffer lse = buffer(shape.batch * shape.heads * shape.seq, DType::f32);
  const kernels::Buffer scratch(kernels::attention_scratch_bytes(shape, type), "weft::measure::rates");
  const double seconds = time_kernel(session, [&] {
    kernels::attention(session.space(), shape, type, q.data(), k.data(), v.data(), o.data(),
                       reinterpret_cast<float*>(lse.data()), scratch.data());
  });
  // This counts as ops::cost does: two products over half of the square.
  return 2 * 2.0 * static_cast<double>(n) * (static_cast<double>(shape.seq) / 2) / seconds;
}

/// Collective: seconds of a sum of `n` elements to its end, one behind the other `times` times.
double add_seconds(runtime::Session& session, std::int64_t n, int times) {
  const kernels::Buffer a = buffer(n, DType::f32), b = buffer(n, DType::f32), c = buffer(n, DType::f32);
  const double seconds = time_kernel(session, [&] {
    for (int i = 0; i < times; ++i) {
      kernels::add(session.space(), n, DType::f32, a.data(), b.data(), c.data());
      kernels::fence(session.space());
    }
  });
  return seconds / times;
}

}  // namespace

machine::Compute measure_rates(runtime::Session& session) {
  const Noise noise(session.space());
  machine::Compute rates;
  rates.threads = device_is_host() ? kernels::concurrency() : 0;
  rates.matmul_f32 = product_rate(session, noise, DType::f32);
  rates.matmul_bf16 = product_rate(session, noise, DType::bf16);
  rates.matmul_f8 = float8_rate(session, noise, Float8Scales::rowwise);
  rates.matmul_f8_tensorwise = float8_rate(session, noise, Float8Scales::tensorwise);
  rates.attention = attention_rate(session, noise);
  constexpr std::int64_t large = 16 << 20;
  rates.bytes_per_s = 3.0 * 4 * large / add_seconds(session, large, 1);
  // One alone, the first behind a barrier, takes twice as long on some machines.
  rates.launch_s = add_seconds(session, 64, 100);
  return rates;
}

Busywork::Busywork(runtime::Session& session)
    : session_(session),
      matmul_(product(session, DType::f32)),
      c_(buffer(product_size() * product_size(), DType::f32)),
      scratch_(matmul_.scratch_bytes(), "weft::measure::rates") {
  const Noise noise(session.space());
  a_ = noise.buffer(product_size() * product_size(), DType::f32);
  b_ = noise.buffer(product_size() * product_size(), DType::f32);
}

void Busywork::run(int times) {
  for (int i = 0; i < times; ++i) {
    matmul_.run(session_.space(), a_.data(), b_.data(), c_.data(), scratch_.data());
    kernels::add(session_.space(), product_size() * product_size(), DType::f32, a_.data(), b_.data(),
                 c_.data());
  }
  kernels::fence(session_.space());
}

}  // namespace weft::measure
