#include "kernels/linear_cross_entropy.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "base/align.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/matmul.hpp"
#include "kernels/update.hpp"

namespace weft::kernels {
namespace {

/// The chunks that a loss is computed in, and where their values stand in its scratch: logits, log-sum-exps,
/// sums of the chunks, and what kernels want.
struct Chunks {
  explicit Chunks(const LinearCrossEntropySpec& s)
      : spec(s), chunks((s.rows + s.chunk - 1) / s.chunk), chunk((s.rows + chunks - 1) / chunks) {}

  std::int64_t last_rows() const { return spec.rows - (chunks - 1) * chunk; }
  /// The type of the sum of dw: several chunks are summed in fp32.
  DType sum_type() const { return chunks > 1 ? DType::f32 : spec.dw_type; }
  bool sums_apart() const { return sum_type() != spec.dw_type; }

  std::size_t logits_bytes() const {
    return aligned(static_cast<std::size_t>(chunk * spec.vocab) * size_of(spec.type));
  }
  std::size_t rows_bytes() const { return aligned(static_cast<std::size_t>(chunk) * sizeof(float)); }
  std::size_t totals_bytes() const { return aligned(static_cast<std::size_t>(2 * chunks) * sizeof(double)); }
  LinearLossScratch scratch_bytes(std::size_t product_bytes) const {
    const std::size_t work =
        aligned(std::max(product_bytes, cross_entropy_scratch_bytes({chunk, spec.vocab})));
    const std::size_t loss = logits_bytes() + rows_bytes() + totals_bytes() + work;
    const std::size_t sum =
        sums_apart() ? aligned(static_cast<std::size_t>(spec.vocab * spec.in) * sizeof(float)) : 0;
    return {loss, loss + sum};
  }

  LinearCrossEntropySpec spec;
  std::int64_t chunks, chunk;
};

/// The matmuls of a chunk of this many rows.
struct Products {
  Products(const LinearCrossEntropySpec& s, std::int64_t chunk_rows, DType sum)
      : rows(chunk_rows),
        forward({MatmulForm::forward, rows, s.in, s.vocab, s.type, s.type, false, s.f32_products}),
        dgrad({MatmulForm::dgrad, rows, s.in, s.vocab, s.type, s.type, false, s.f32_products}),
        wgrad({MatmulForm::wgrad, rows, s.in, s.vocab, s.type, sum, false, s.f32_products}),
        wgrad_add({MatmulForm::wgrad, rows, s.in, s.vocab, s.type, sum, true, s.f32_products}) {}
  std::size_t scratch_bytes() const {
    return std::max(
        {forward.scratch_bytes(), dgrad.scratch_bytes(), wgrad.scratch_bytes(), wgrad_add.scratch_bytes()});
  }

  std::int64_t rows;
  Matmul forward, dgrad, wgrad, wgrad_add;
};

}  // namespace

struct LinearCrossEntropy::Impl : Chunks {
  explicit Impl(const LinearCrossEntropySpec& s) : Chunks(s) {
    products.emplace_back(spec, chunk, sum_type());
    if (last_rows() != chunk) products.emplace_back(spec, last_rows(), sum_type());
  }

  LinearLossScratch scratch_bytes() const {
    std::size_t most = 0;
    for (const Products& p : products) most = std::max(most, p.scratch_bytes());
    return Chunks::scratch_bytes(most);
  }

  /// Calls use(products, first row, chunk's number) chunk by chunk, each time when the chunk's logits are
  /// there.
  template <class Use>
  void each_chunk(Space& space, const void* h, const void* w, const std::int32_t* targets, double* totals,
                  std::byte* scratch, Use&& use) {
    std::byte* const logits = scratch;
    auto* const lse = reinterpret_cast<float*>(logits + logits_bytes());
    auto* const parts = reinterpret_cast<double*>(scratch + logits_bytes() + rows_bytes());
    std::byte* const work = scratch + logits_bytes() + rows_bytes() + totals_bytes();
    for (std::int64_t i = 0; i < chunks; ++i) {
      const std::int64_t row = i * chunk;
      Products& p = i + 1 == chunks ? products.back() : products.front();
      p.forward.run(space, static_cast<const std::byte*>(h) + offset(row), w, logits, work);
      cross_entropy(space, {p.rows, spec.vocab}, spec.type, logits, targets + row, lse,
                    chunks > 1 ? parts + 2 * i : totals, work);
      use(p, row, logits, lse, work);
    }
    if (chunks > 1) reduce_totals(space, 1, chunks, parts, totals);
  }

  /// How many bytes of h or dh stand before row `row`.
  std::int64_t offset(std::int64_t row) const {
    return row * spec.in * static_cast<std::int64_t>(size_of(spec.type));
  }

  std::vector<Products> products;  ///< matmuls of a chunk and, where it is shorter, of the last one
};

LinearLossScratch linear_loss_scratch(const LinearCrossEntropySpec& spec, std::size_t product_bytes) {
  return Chunks(spec).scratch_bytes(product_bytes);
}

LinearCrossEntropy::LinearCrossEntropy(const LinearCrossEntropySpec& spec) {
  if (spec.chunk < 1) throw std::logic_error("linear_cross_entropy: the chunk must be positive");
  impl_ = std::make_unique<Impl>(spec);
}
LinearCrossEntropy::~LinearCrossEntropy() = default;
LinearCrossEntropy::LinearCrossEntropy(LinearCrossEntropy&&) noexcept = default;
LinearCrossEntropy& LinearCrossEntropy::operator=(LinearCrossEntropy&&) noexcept = default;

std::vector<Matmul*> LinearCrossEntropy::matmuls() {
  std::vector<Matmul*> all;
  for (Products& p : impl_->products) all.insert(all.end(), {&p.forward, &p.dgrad, &p.wgrad, &p.wgrad_add});
  return all;
}

std::size_t LinearCrossEntropy::loss_scratch_bytes() const {
  return impl_->scratch_bytes().loss;
}
std::size_t LinearCrossEntropy::gradients_scratch_bytes() const {
  return impl_->scratch_bytes().gradients;
}

void LinearCrossEntropy::loss(Space& space, const void* h, const void* w, const std::int32_t* targets,
                              double* totals, void* scratch) {
  impl_->each_chunk(space, h, w, targets, totals, static_cast<std::byte*>(scratch), [](auto&&...) {});
}

void LinearCrossEntropy::gradients(Space& space, const void* h, const void* w, const std::int32_t* targets,
                                   double* totals, void* dh, void* dw, void* scratch) {
  Impl& impl = *impl_;
  const LinearCrossEntropySpec& s = impl.spec;
  auto* const bytes = static_cast<std::byte*>(scratch);
  void* const sum = impl.sums_apart() ? bytes + loss_scratch_bytes() : dw;
  impl.each_chunk(space, h, w, targets, totals, bytes,
                  [&](Products& p, std::int64_t row, void* logits, const float* lse, void* work) {
                    cross_entropy_grad(space, {p.rows, s.vocab}, s.type, logits, targets + row, lse, logits);
                    p.dgrad.run(space, logits, w, static_cast<std::byte*>(dh) + impl.offset(row), work);
                    (row == 0 ? p.wgrad : p.wgrad_add)
                        .run(space, logits, static_cast<const std::byte*>(h) + impl.offset(row), sum, work);
                  });
  if (sum != dw) cast(space, s.vocab * s.in, DType::f32, sum, s.dw_type, dw);
}

}  // namespace weft::kernels
