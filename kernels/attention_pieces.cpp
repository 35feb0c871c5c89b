#include "kernels/attention_pieces.hpp"

#include "kernels/lanes.hpp"

namespace weft::kernels {

namespace {

struct Sum {
  PieceSum in;
  bf16* sum;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const std::int64_t sequence = row / in.seq, token = row % in.seq;
    bf16* const to = sum + row * in.token_width;
    lanes.each(in.width, [&](std::int64_t i) {
      float total = token < in.tokens_in_place ? to_float(to[i]) : 0;
      for (const GradientPieces& p : in.pieces) {
        if (token >= p.tokens) continue;
        const bf16* const first = p.data + (sequence * p.tokens + token) * in.width + i;
        for (std::int64_t n = 0; n < p.count; ++n)
          total += to_float(first[n * in.batch * p.tokens * in.width]);
      }
      to[i] = from_float<bf16>(total);
    });
  }
};

}  // namespace

void sum_pieces(Space& space, const PieceSum& pieces, bf16* sum) {
  for_each_row(space, "weft::attention::sum_pieces", pieces.batch * pieces.seq, Sum{pieces, sum});
}

}  // namespace weft::kernels
