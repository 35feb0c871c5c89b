// Stands in for the engine on processors that have none: nobody calls these functions there.
#include <stdexcept>

#include "kernels/bf16_engine/rows.hpp"
#include "kernels/bf16_engine/softmax.hpp"
#include "kernels/bf16_engine/tiles.hpp"

namespace weft::kernels::bf16_engine {
namespace {

[[noreturn]] void fail() {
  throw std::logic_error("this processor has no engine for bf16");
}

}  // namespace

Kind kind() {
  return Kind::none;
}
TileScope::TileScope() = default;
TileScope::~TileScope() = default;
void left_from_rows(const Source& /*s*/, Bits* /*tile*/) {
  fail();
}
void left_from_columns(const Source& /*s*/, Bits* /*tile*/) {
  fail();
}
void right_from_rows(const Source& /*s*/, Bits* /*tile*/) {
  fail();
}
void right_from_columns(const Source& /*s*/, Bits* /*tile*/) {
  fail();
}
void left_from_rows(const WideSource& /*s*/, Bits* /*tiles*/) {
  fail();
}
void left_from_columns(const WideSource& /*s*/, Bits* /*tiles*/) {
  fail();
}
void right_from_rows(const WideSource& /*s*/, Bits* /*tiles*/) {
  fail();
}
void right_from_columns(const WideSource& /*s*/, Bits* /*tiles*/) {
  fail();
}
void multiply_panels(const Left& /*left*/, const Bits* /*right*/, std::int64_t /*panel*/, std::int64_t /*k*/,
                     std::int64_t /*panels*/, float* /*sums*/, bool /*add*/) {
  fail();
}
void fetch_rows(const Bits* /*x*/, std::int64_t /*ld*/, int /*rows*/, std::int64_t /*columns*/) {
  fail();
}
void multiply_pieces(const Left& /*left*/, const Bits* /*right*/, std::int64_t /*steps*/,
                     std::int64_t /*rows*/, float* /*sums*/) {
  fail();
}
void multiply(const Left& /*left*/, const Bits* /*right*/, const Extent& /*extent*/, float* /*sums*/,
              bool /*add*/, const Ahead& /*ahead*/) {
  fail();
}
void write_block(const float* /*sums*/, int /*rows*/, int /*columns*/, const Target& /*target*/) {
  fail();
}
void transpose_block(const float* /*from*/, float* /*to*/) {
  fail();
}
bool probabilities(float* /*scores*/, std::int64_t /*blocks*/, std::int64_t /*behind*/,
                   const std::int32_t* /*first_keys*/, std::int64_t /*key*/, float /*scale*/,
                   Softmax& /*softmax*/, Chunk& /*p*/) {
  fail();
}
void finish(Softmax& /*softmax*/, int /*queries*/, float* /*lse*/) {
  fail();
}
void scale_rows(float* /*sums*/, std::int64_t /*blocks*/, const float* /*factor*/) {
  fail();
}
void score_gradients(const float* /*scores*/, const float* /*dp*/, std::int64_t /*blocks*/,
                     std::int64_t /*behind*/, const std::int32_t* /*first_keys*/, std::int64_t /*key*/,
                     float /*scale*/, const float* /*lse*/, const float* /*delta*/, Chunk& /*p*/,
                     Chunk& /*ds*/) {
  fail();
}
void swiglu_row(std::int64_t /*n*/, std::int64_t /*stride*/, const bf16* /*gate*/, const bf16* /*up*/,
                bf16* /*out*/) {
  fail();
}
void swiglu_grad_row(std::int64_t /*n*/, std::int64_t /*stride*/, const bf16* /*gate*/, const bf16* /*up*/,
                     const bf16* /*dout*/, bf16* /*dgate*/, bf16* /*dup*/) {
  fail();
}
float largest_of_row(std::int64_t /*n*/, const bf16* /*z*/) {
  fail();
}
float powers_of_row(std::int64_t /*n*/, const bf16* /*z*/, float /*shift*/) {
  fail();
}
void softmax_row(std::int64_t /*n*/, const bf16* /*z*/, float /*shift*/, bf16* /*to*/) {
  fail();
}
float dot(const Bits* /*a*/, const Bits* /*b*/, std::int64_t /*n*/) {
  fail();
}

}  // namespace weft::kernels::bf16_engine
