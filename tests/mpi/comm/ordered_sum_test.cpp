// Tests the ordered sum of a reduce-scatter as a device makes it, by packets and element by element, on
// memory of the host: no device is needed for that.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "comm/nccl/nccl_sum.hpp"
#include "comm/nccl/peer_sum.hpp"
#include "mpi/comm/noise.hpp"

namespace weft::comm::detail {
namespace {

/// An array that begins `shift` elements behind a multiple of 16 bytes.
template <class T>
class Array {
 public:
  Array(std::int64_t count, int shift) : room_(static_cast<std::size_t>(count + shift) * sizeof(T) + 16) {
    const auto address = reinterpret_cast<std::uintptr_t>(room_.data());
    data_ = reinterpret_cast<T*>(room_.data() + (16 - address % 16) % 16) + shift;
    for (std::int64_t i = 0; i < count; ++i) data_[i] = test::convert<T>(test::real(shift, i, 7));
  }
  T* data() { return data_; }

 private:
  std::vector<std::byte> room_;
  T* data_;
};

struct Seen {
  int sums = 0, with_packets = 0, with_rests = 0, without_packets = 0;
};

/// Compares one sum, made in turns from the last to the first, with its definition.
template <class Wire, class Out>
void check(DeviceSum s, int shift_in, int shift_out, Seen& seen) {
  Array<Wire> own(s.count, shift_in), pieces(s.count * (s.size - 1), shift_in);
  Array<Out> out(s.count, shift_out), expected(s.count, shift_out);
  s.own = own.data();
  s.pieces = pieces.data();
  s.out = expected.data();
  const OwnAndPieces<Wire> slices{s};
  for (std::int64_t i = 0; i < s.count; ++i) sum_element<Wire, Out>(s, i, slices);
  s.out = out.data();
  const std::int64_t packets = packets_of(s);
  for (std::int64_t turn = turns_of(s, packets) - 1; turn >= 0; --turn)
    take_turn<Wire, Out>(s, packets, turn, slices);
  const auto bytes = static_cast<std::size_t>(s.count) * sizeof(Out);
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), bytes), 0);
  ++seen.sums;
  seen.with_packets += packets > 0 ? 1 : 0;
  seen.with_rests += packets > 0 && packets * sum_packet < s.count ? 1 : 0;
  seen.without_packets += packets == 0 && s.count >= sum_packet ? 1 : 0;
}

TEST(OrderedSum, ByPacketsHasTheBitsOfElements) {
  Seen seen;
  for (const DType wire : {DType::f32, DType::bf16})
    for (const DType out_type : {DType::f32, DType::bf16})
      for (const WriteMode write : {WriteMode::replace, WriteMode::add})
        for (const int size : {1, 2, 3, 4})
          for (int rank = 0; rank < size; ++rank)
            for (const std::int64_t count : {1, 7, 8, 9, 12, 16, 36, 256})
              for (const int shift_in : {0, 1, 4, 8})
                for (const int shift_out : {0, 2, 4, 8}) {
                  SCOPED_TRACE(::testing::Message()
                               << name_of(wire) << " to " << name_of(out_type) << ", rank " << rank << " of "
                               << size << ", " << count << " elements, " << shift_in << ", " << shift_out);
                  DeviceSum s{nullptr, nullptr, nullptr, count, rank, size, wire, out_type, write};
                  with_types_of(s, [&](auto w, auto o) {
                    check<decltype(w), decltype(o)>(s, shift_in, shift_out, seen);
                    return 0;
                  });
                }
  EXPECT_EQ(seen.sums, 2 * 2 * 2 * 10 * 8 * 16);
  EXPECT_GT(seen.with_packets, 1000);
  EXPECT_GT(seen.with_rests, 500);
  EXPECT_GT(seen.without_packets, 1000);
}

/// The slices of a shard are multiples of 256 elements at aligned addresses: all of them go by packets.
TEST(OrderedSum, OfAShardIsAllPackets) {
  alignas(16) static std::byte memory[16];
  for (const DType wire : {DType::f32, DType::bf16})
    for (const int size : {1, 2, 3, 8, 1000}) {
      const DeviceSum s{memory, memory, memory, 512, 0, size, wire, DType::f32, WriteMode::replace};
      EXPECT_EQ(packets_of(s), 512 / sum_packet) << size;
      EXPECT_EQ(turns_of(s, packets_of(s)), 512 / sum_packet) << size;
    }
}

/// A sum of peers has blocks for all its packets, up to the limit, and packets where both ends are aligned.
TEST(OrderedSum, OfPeersHasAsManyBlocksOnAllRanks) {
  constexpr std::int64_t block = std::int64_t{peer_threads} * sum_packet;
  struct Row {
    std::int64_t count;
    int most, blocks;
  };
  for (const Row& row : {Row{1, 32, 1}, Row{block, 32, 1}, Row{block + 1, 32, 2}, Row{32 * block, 32, 32},
                         Row{1'000'000'000'000, 32, 32}, Row{block + 1, 1, 1}})
    EXPECT_EQ(peer_blocks(row.count, row.most), row.blocks) << row.count;
  alignas(16) static float memory[8];
  for (const int out : {0, 1, 4})
    for (const std::size_t offset : {0, 4, 8, 16, 48}) {
      const DeviceSum s{.out = memory + out, .count = 25, .size = 3};
      const bool aligned = out % 4 == 0 && offset % 16 == 0;
      EXPECT_EQ(packets_of_peers(s, {nullptr, nullptr, offset}), aligned ? 3 : 0) << out << ' ' << offset;
    }
}

}  // namespace
}  // namespace weft::comm::detail
