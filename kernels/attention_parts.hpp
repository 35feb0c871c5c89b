// Internal: cuts a large attention into parts, for a library whose scratch grows with heads times T x T.
#pragma once

#include "kernels/attention.hpp"

namespace weft::kernels {

constexpr std::int64_t largest_divisor(std::int64_t n, std::int64_t most) {
  for (std::int64_t d = most < n ? most : n; d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

/// The largest part with at most `heads` query heads that makes up `whole` when it is repeated. It has some
/// of the sequences, or some of the kv heads of one sequence, with the query heads that read them; at least
/// one kv head of one sequence.
constexpr AttentionShape part_of(const AttentionShape& whole, std::int64_t heads) {
  AttentionShape part = whole;
  if (heads >= whole.heads) {
    part.batch = largest_divisor(whole.batch, heads / whole.heads);
    return part;
  }
  const std::int64_t group = whole.heads / whole.kv_heads;
  part.batch = 1;
  part.kv_heads = largest_divisor(whole.kv_heads, heads / group);
  part.heads = part.kv_heads * group;
  return part;
}

/// The largest part of the whole whose scratch is at most `most_bytes`, or the smallest part that there is.
/// bytes(part) says what a part asks for; it is called last for the part that is found.
template <class Bytes>
AttentionShape part_within(const AttentionShape& whole, std::size_t most_bytes, Bytes&& bytes) {
  AttentionShape part = whole;
  for (std::size_t wanted = bytes(part); wanted > most_bytes; wanted = bytes(part)) {
    const auto heads = static_cast<std::size_t>(part.batch * part.heads);
    const AttentionShape smaller = part_of(whole, static_cast<std::int64_t>(heads * most_bytes / wanted));
    if (smaller == part) break;
    part = smaller;
  }
  return part;
}

}  // namespace weft::kernels
