#include "kernels/attention.hpp"

#include <stdexcept>

#include "kernels/attention_backends.hpp"
#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

struct Tensors {
  Array q, k, v, dout;
};

Tensors tensors(const AttentionShape& s, DType t) {
  const std::int64_t queries = s.batch * s.seq * s.heads * s.head_dim;
  const std::int64_t keys = s.batch * s.seq * s.kv_heads * s.head_dim;
  return {random(queries, t, 1, 2.0), random(keys, t, 2, 2.0), random(keys, t, 3), random(queries, t, 4)};
}

/// In bf16 the host's engine rounds probabilities and their gradients, too: a sum of few large terms that
/// cancel is off by several of its own roundings, the whole by little more than one.
void expect_close(const char* name, const Array& actual, const Array& expected, DType t, double floor = 0) {
  EXPECT_TRUE(close(actual, expected, t == DType::f32 ? 3e-5 : 3e-2, floor)) << name;
  if (expected.size() > 100) {
    EXPECT_LE(distance(actual, expected), t == DType::f32 ? 1e-5 : 6e-3) << name;
  }
}

/// Of one back end, forward and backward.
struct ScratchBytes {
  std::size_t forward, backward;
};

/// Runs one back end forward and backward, and compares both with the reference.
template <class ForwardCall, class BackwardCall>
void check(const AttentionShape& s, DType t, ScratchBytes scratch_bytes, ForwardCall forward,
           BackwardCall backward) {
  SCOPED_TRACE(testing::Message() << name_of(t) << " B " << s.batch << " T " << s.seq << " H " << s.heads
                                  << " Hkv " << s.kv_heads << " D " << s.head_dim);
  const Tensors x = tensors(s, t);
  const Device q(x.q, t), k(x.k, t), v(x.v, t), dout(x.dout, t);
  const auto queries = static_cast<std::int64_t>(x.q.size());
  const auto keys = static_cast<std::int64_t>(x.k.size());
  const Device o(queries, t), lse(s.batch * s.heads * s.seq, DType::f32);
  const Buffer forward_work = scratch(scratch_bytes.forward);
  forward(q.data(), k.data(), v.data(), o.data(), lse.as<float>(), forward_work.data());
  const auto expected = reference::attention(s, x.q, x.k, x.v);
  expect_close("o", o.read(), expected.o, t);
  EXPECT_TRUE(close(lse.read(), expected.lse, 2e-6));

  const Device dq(queries, t), dk(keys, t), dv(keys, t);
  const Buffer work = scratch(scratch_bytes.backward);
  backward(AttentionGrad{q.data(), k.data(), v.data(), o.data(), lse.as<float>(), dout.data(), dq.data(),
                         dk.data(), dv.data(), work.data()});
  const auto grads = reference::attention_grad(s, x.q, x.k, x.v, o.read(), x.dout);
  expect_close("dq", dq.read(), grads.dq, t, 1e-6);  // a sequence of one has zeros
  expect_close("dk", dk.read(), grads.dk, t, 1e-6);
  expect_close("dv", dv.read(), grads.dv, t);
}

void check_default(const AttentionShape& s, DType t) {
  check(
      s, t, {attention_scratch_bytes(s, t), attention_grad_scratch_bytes(s, t)},
      [&](auto... tensors) { attention(space(), s, t, tensors...); },
      [&](const AttentionGrad& grad) { attention_grad(space(), s, t, grad); });
}

void check_team(const AttentionShape& s, DType t) {
  check(
      s, t, {team::attention_scratch_bytes(s, t), team::attention_grad_scratch_bytes(s, t)},
      [&](auto... tensors) { team::attention(space(), s, t, tensors...); },
      [&](const AttentionGrad& grad) { team::attention_grad(space(), s, t, grad); });
}

TEST(Attention, EverySequenceLength) {
  for (std::int64_t seq = 1; seq <= 150; ++seq)
    check_default({1, seq, 2, 1, 8}, seq % 2 ? DType::f32 : DType::bf16);
}

TEST(Attention, LongSequences) {
  for (DType t : float_types)
    for (std::int64_t seq : {255, 256, 257, 515}) check_default({1, seq, 4, 2, 32}, t);
}

TEST(Attention, GroupsAndHeadDimensions) {
  for (DType t : float_types) {
    for (std::int64_t kv_heads : {1, 2, 3, 6}) check_default({2, 70, 6, kv_heads, 16}, t);
    for (std::int64_t head_dim : {1, 3, 17, 48, 64, 128, 255, 256}) check_default({2, 67, 2, 1, head_dim}, t);
    check_default({1, 300, 2, 2, 32}, t);
  }
}

TEST(Attention, TeamBackEnd) {
  for (DType t : float_types) {
    for (std::int64_t seq : {1, 3, 15, 16, 17, 31, 33, 64, 97}) check_team({2, seq, 4, 2, 8}, t);
    for (std::int64_t head_dim : {1, 17, 128, 256}) check_team({1, 37, 3, 1, head_dim}, t);
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  const AttentionShape s{1, 80, 1, 1, 8};
  Tensors x = tensors(s, DType::f32);
  for (double& value : x.q) value *= 100;
  const Device o(80 * 8, DType::f32), lse(80, DType::f32);
  attention(space(), s, DType::f32, Device(x.q, DType::f32).data(), Device(x.k, DType::f32).data(),
            Device(x.v, DType::f32).data(), o.data(), lse.as<float>(), nullptr);
  EXPECT_TRUE(close(o.read(), reference::attention(s, x.q, x.k, x.v).o, 1e-3));
}

TEST(Attention, RefusesShapesItCannotDo) {
  for (const AttentionShape& s : {AttentionShape{1, 4, 3, 2, 8}, AttentionShape{1, 4, 2, 2, 257}})
    EXPECT_THROW(attention(space(), s, DType::f32, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
                 std::logic_error);
}

}  // namespace
}  // namespace weft::kernels
