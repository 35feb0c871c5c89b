#include "kernels/attention_pieces.hpp"

#include "kernels/lanes.hpp"

namespace weft::kernels {

namespace {

struct Sum {
  PieceSum in;
  bf16* sum;

  /// Calls add(x) for each piece of a token, in order; x is the piece's first element.
  template <class F>
  KOKKOS_FUNCTION void each_piece(std::int64_t row, const F& add) const {
    const std::int64_t sequence = row / in.seq, token = row % in.seq;
    for (const GradientPieces& p : in.pieces) {
      if (token >= p.tokens) continue;
      const bf16* const first = p.data + (sequence * p.tokens + token) * in.width;
      for (std::int64_t n = 0; n < p.count; ++n) add(first + n * in.batch * p.tokens * in.width);
    }
  }
  KOKKOS_FUNCTION bool adds_in_place(std::int64_t row) const { return row % in.seq < in.tokens_in_place; }

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    bf16* const to = sum + row * in.token_width;
    const bool adds = adds_in_place(row);
    lanes.each(in.width, [&](std::int64_t i) {
      float total = adds ? to_float(to[i]) : 0;
      each_piece(row, [&](const bf16* x) { total += to_float(x[i]); });
      to[i] = from_float<bf16>(total);
    });
  }
};

/// Does what Sum does, a packet of a token a thread: a token's heads are too few elements for a team.
struct SumPackets {
  Sum s;

  static bool takes(const Sum& s) {
    return s.in.token_width % packet == 0 &&
           takes_packets(s.in.width, Write<bf16>{s.sum}, Read<bf16>{s.in.pieces[0].data},
                         Read<bf16>{s.in.pieces[1].data});
  }

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t packets = s.in.width / packet, row = i / packets, begin = i % packets * packet;
    bf16* const to = s.sum + row * s.in.token_width + begin;
    float total[packet] = {};
    if (s.adds_in_place(row)) load_packet(to, total);
    s.each_piece(row, [&](const bf16* piece) {
      float x[packet];
      load_packet(piece + begin, x);
      for (int c = 0; c < packet; ++c) total[c] += x[c];
    });
    store_packet(to, total);
  }
};

}  // namespace

void sum_pieces(Space& space, const PieceSum& pieces, bf16* sum) {
  const std::int64_t rows = pieces.batch * pieces.seq;
  const Sum s{pieces, sum};
  if constexpr (!runs_on_host)
    if (SumPackets::takes(s))
      return for_each_element(space, "weft::attention::sum_pieces", rows * (pieces.width / packet),
                              SumPackets{s});
  for_each_row(space, "weft::attention::sum_pieces", rows, s);
}

}  // namespace weft::kernels
