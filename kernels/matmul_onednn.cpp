// The matmul on the host. bf16 products run on bf16_engine/product.hpp where there is an engine, and fp32
// products on split_product.hpp where there is AMX, or on MKL where the build has it and the processor is one
// for it. All others run on oneDNN.
#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "base/align.hpp"
#include "kernels/bf16_engine/product.hpp"
#include "kernels/bf16_engine/split_product.hpp"
#include "kernels/bf16_engine/tiles.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/matmul.hpp"
#include "kernels/matmul_mkl.hpp"
#include "kernels/matmul_spec.hpp"

namespace weft::kernels {

namespace {

using Tag = dnnl::memory::format_tag;

dnnl::engine& cpu() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::data_type data_type(DType t) {
  return t == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::matmul::primitive_desc describe(const MatmulSizes& s, DType type, DType result, bool add) {
  const dnnl::memory::desc a({s.m, s.k}, data_type(type), s.a_transposed ? Tag::ba : Tag::ab);
  const dnnl::memory::desc b({s.k, s.n}, data_type(type), s.b_transposed ? Tag::ba : Tag::ab);
  const dnnl::memory::desc c({s.m, s.n}, data_type(result), Tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);  // the environment could ask for bf16 inside fp32
  if (add) {
    dnnl::post_ops after;
    after.append_sum(1);
    attributes.set_post_ops(after);
  }
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(cpu(), a, b, c, attributes);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attributes, cpu());
#endif
}

bool has_bf16() {
  static const bool yes = [] {
    try {
      describe({1, 1, 1, false, false}, DType::bf16, DType::f32, false);
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return yes;
}

class OneDnn {
 public:
  explicit OneDnn(const MatmulSpec& matmul)
      : spec(matmul),
        sizes(sizes_of(matmul)),
        widened(matmul.type == DType::bf16 && !has_bf16()),
        descriptor(describe(sizes, widened ? DType::f32 : matmul.type, widened ? DType::f32 : matmul.result,
                            matmul.add)),
        primitive(descriptor),
        stream(cpu()),
        a(descriptor.src_desc(), cpu(), nullptr),
        b(descriptor.weights_desc(), cpu(), nullptr),
        c(descriptor.dst_desc(), cpu(), nullptr),
        scratchpad(descriptor.scratchpad_desc(), cpu(), nullptr),
        arguments{{{DNNL_ARG_SRC, a.get()},
                   {DNNL_ARG_WEIGHTS, b.get()},
                   {DNNL_ARG_DST, c.get()},
                   {DNNL_ARG_SCRATCHPAD, scratchpad.get()}}} {}

  std::size_t scratch_bytes() const {
    if (!widened) return pad_bytes();
    const bool narrow_result = spec.result == DType::bf16;
    return pad_bytes() + wide_bytes(sizes.m * sizes.k) + wide_bytes(sizes.k * sizes.n) +
           (narrow_result ? wide_bytes(sizes.m * sizes.n) : 0);
  }

  void run(Space& space, const void* a_data, const void* b_data, void* c_data, void* scratch) {
    if (widened)
      execute_widened(space, a_data, b_data, c_data, static_cast<std::byte*>(scratch));
    else
      execute(a_data, b_data, c_data, scratch);
  }

 private:
  std::size_t pad_bytes() const { return aligned(descriptor.scratchpad_desc().get_size()); }
  std::size_t wide_bytes(std::int64_t elements) const {
    return aligned(static_cast<std::size_t>(elements) * sizeof(float));
  }

  void execute(const void* a_data, const void* b_data, void* c_data, void* pad) {
    // oneDNN does not write what it calls src and weights; its memory object has no const form.
    a.set_data_handle(const_cast<void*>(a_data));
    b.set_data_handle(const_cast<void*>(b_data));
    c.set_data_handle(c_data);
    scratchpad.set_data_handle(pad);
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive.get(), stream.get(),
                                                   static_cast<int>(arguments.size()), arguments.data()),
                            "matmul: oneDNN could not execute");
  }

  void execute_widened(Space& space, const void* a_data, const void* b_data, void* c_data,
                       std::byte* scratch) {
    std::byte* wide_a = scratch + pad_bytes();
    std::byte* wide_b = wide_a + wide_bytes(sizes.m * sizes.k);
    cast(space, sizes.m * sizes.k, DType::bf16, a_data, DType::f32, wide_a);
    cast(space, sizes.k * sizes.n, DType::bf16, b_data, DType::f32, wide_b);
    if (spec.result == DType::f32) return execute(wide_a, wide_b, c_data, scratch);
    std::byte* wide_c = wide_b + wide_bytes(sizes.k * sizes.n);
    if (spec.add) cast(space, sizes.m * sizes.n, DType::bf16, c_data, DType::f32, wide_c);
    execute(wide_a, wide_b, wide_c, scratch);
    cast(space, sizes.m * sizes.n, DType::f32, wide_c, DType::bf16, c_data);
  }

  MatmulSpec spec;
  MatmulSizes sizes;
  bool widened;  ///< whether bf16 operands are multiplied in fp32 arithmetic
  dnnl::matmul::primitive_desc descriptor;
  dnnl::matmul primitive;
  dnnl::stream stream;
  dnnl::memory a, b, c, scratchpad;
  std::array<dnnl_exec_arg_t, 4> arguments;
};

}  // namespace

bool bits_depend_on_threads(DType type, F32Products f32) {
  const bool ours = bf16_engine::serves(type) || (type == DType::f32 && bf16_engine::splits(f32));
  return !ours && !mkl::serves(type);
}

std::string_view product_method(DType type, F32Products f32) {
  if (bf16_engine::serves(type)) return bf16_engine::kind() == bf16_engine::Kind::tiles ? "AMX" : "AVX-512";
  if (type == DType::f32 && bf16_engine::splits(f32)) return "AMX, in three bf16 pieces";
  return mkl::serves(type) ? "MKL" : "oneDNN";
}

unsigned product_instructions() {
  return static_cast<unsigned>(dnnl::get_effective_cpu_isa());
}

std::size_t product_buffer_bytes(DType type, F32Products f32) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  const auto threads = static_cast<std::size_t>(concurrency());
  if (type != DType::f32 || bf16_engine::splits(f32)) return 0;
  if (mkl::serves(type)) return (4 + threads * 9) * mib;  // seen with MKL 2026.2
  constexpr auto avx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  if ((product_instructions() & avx512) == avx512) return 0;  // oneDNN has scratch that Weft gives it
  // Its products for AVX2 and less pack operands, at most 10,000 by 192 and 192 by 384 elements a thread
  // (oneDNN 2.6), and give them back (runtime::return_large_blocks).
  return threads * 8 * mib;
}

struct Matmul::Impl {
  explicit Impl(const MatmulSpec& s) {
    if (bf16_engine::serves(s.type))
      by_engine.emplace(sizes_of(s), s.result, s.add);
    else if (s.type == DType::f32 && bf16_engine::splits(s.f32_products))
      by_split.emplace(sizes_of(s), s.add);
    else if (mkl::serves(s.type))
      by_mkl = mkl::Product{sizes_of(s), s.add, concurrency()};
    else
      by_onednn.emplace(s);
  }

  std::optional<bf16_engine::Product> by_engine;  ///< one of the four ways is set
  std::optional<bf16_engine::SplitProduct> by_split;
  std::optional<mkl::Product> by_mkl;
  std::optional<OneDnn> by_onednn;
};

Matmul::Matmul(const MatmulSpec& spec) : spec_(spec) {
  check(spec);
  impl_ = std::make_unique<Impl>(spec);
}
Matmul::~Matmul() = default;
Matmul::Matmul(Matmul&&) noexcept = default;
Matmul& Matmul::operator=(Matmul&&) noexcept = default;

std::vector<std::string> Matmul::algorithms(int /*most*/) const {
  return {};
}

std::string Matmul::algorithm() const {
  return {};
}

bool Matmul::take(const ProductAlgorithms& /*algorithms*/) {
  return true;
}

std::size_t Matmul::scratch_bytes() const {
  if (impl_->by_engine) return impl_->by_engine->scratch_bytes();
  if (impl_->by_split) return impl_->by_split->scratch_bytes();
  return impl_->by_onednn ? impl_->by_onednn->scratch_bytes() : 0;
}

void Matmul::run(Space& space, const void* a, const void* b, void* c, void* scratch) {
  if (impl_->by_engine)
    impl_->by_engine->run(space, a, b, c, scratch);
  else if (impl_->by_split)
    impl_->by_split->run(space, static_cast<const float*>(a), static_cast<const float*>(b),
                         static_cast<float*>(c), scratch);
  else if (impl_->by_mkl)
    impl_->by_mkl->run(a, b, c);
  else
    impl_->by_onednn->run(space, a, b, c, scratch);
}

}  // namespace weft::kernels
