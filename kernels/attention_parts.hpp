// Internal: cuts a large attention into parts, for a library whose scratch grows with heads times T x T.
#pragma once

#include "base/align.hpp"
#include "base/dtype.hpp"
#include "kernels/attention.hpp"

namespace weft::kernels {

constexpr std::int64_t largest_divisor(std::int64_t n, std::int64_t most) {
  for (std::int64_t d = most < n ? most : n; d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

/// The largest divisor of `group` up to `most` whose heads have a multiple of four rows, because cuDNN begins
/// a part at an address that is a multiple of 16 bytes; where there is none, the smallest that has.
constexpr std::int64_t divisor_with_whole_rows(const AttentionShape& whole, std::int64_t group,
                                               std::int64_t most) {
  const auto serves = [&](std::int64_t d) { return group % d == 0 && d * whole.queries() % 4 == 0; };
  for (std::int64_t d = most; d >= 1; --d)
    if (serves(d)) return d;
  for (std::int64_t d = 1; d < group; ++d)
    if (serves(d)) return d;
  return group;
}

/// The largest part with at most `heads` query heads that makes up `whole` when it is repeated: some of the
/// sequences; or some of the kv heads of one sequence, with the query heads that read them; or some of the
/// query heads of one kv head, of which it may have more than `heads` (divisor_with_whole_rows()).
constexpr AttentionShape part_of(const AttentionShape& whole, std::int64_t heads) {
  AttentionShape part = whole;
  if (heads >= whole.heads) {
    part.batch = largest_divisor(whole.batch, heads / whole.heads);
    return part;
  }
  const std::int64_t group = whole.heads / whole.kv_heads;
  part.batch = 1;
  part.kv_heads = largest_divisor(whole.kv_heads, heads / group);
  part.heads = heads < group ? divisor_with_whole_rows(whole, group, heads) : part.kv_heads * group;
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

/// How many parts share a kv head.
constexpr std::int64_t parts_of_group(const AttentionShape& part, const AttentionShape& whole) {
  return whole.heads / whole.kv_heads / (part.heads / part.kv_heads);
}

/// Bytes for the gradients of keys, or of values, that a part's runs of queries leave in bf16 before they are
/// added up. With parts that share a kv head every run leaves some; else only the first of two runs does. The
/// last run sees at most all keys, the first of two at most half of them.
constexpr std::size_t gradient_pieces_bytes(const AttentionShape& part, const AttentionShape& whole) {
  const std::int64_t parts = parts_of_group(part, whole);
  const std::int64_t keys = (parts > 1 ? parts * whole.seq : 0) + (whole.runs() - 1) * parts * whole.seq / 2;
  return aligned(static_cast<std::size_t>(part.batch * keys * part.kv_heads * part.head_dim) *
                 size_of(DType::bf16));
}

/// The scratch of a backward whose library needs `workspace_bytes` for a part.
constexpr std::size_t backward_scratch_bytes(const AttentionShape& part, const AttentionShape& whole,
                                             std::size_t workspace_bytes) {
  return aligned(workspace_bytes) + 2 * gradient_pieces_bytes(part, whole);
}

}  // namespace weft::kernels
