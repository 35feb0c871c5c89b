// What tests of attention share: operands, and comparison with the reference.
#pragma once

#include "kernels/attention.hpp"

#include "base/device.hpp"
#include "kernels/attention_backends.hpp"
#include "rig.hpp"

namespace weft::kernels::rig {

struct Tensors {
  Array q, k, v, dout;
};

inline Tensors tensors(const AttentionShape& s, DType t) {
  const std::int64_t queries = s.runs() * s.batch * s.queries() * s.heads * s.head_dim;
  const std::int64_t keys = s.batch * s.seq * s.kv_heads * s.head_dim;
  return {random(queries, t, 1, 2.0), random(keys, t, 2, 2.0), random(keys, t, 3), random(queries, t, 4)};
}

/// Expects values to be close. In bf16 the host's engine and cuDNN round probabilities and their gradients,
/// too, and cuDNN rounds the gradients of keys that each head adds. So a sum of a few large terms that cancel
/// is off by several of its own roundings, and the whole by little more than one.
inline void expect_close(const char* name, const Array& actual, const Array& expected, DType t,
                         double floor = 0) {
  EXPECT_TRUE(close(actual, expected, t == DType::f32 ? 3e-5 : 4e-2, floor)) << name;
  if (expected.size() > 100) {
    EXPECT_LE(distance(actual, expected), t == DType::f32 ? 1e-5 : 6e-3) << name;
  }
}

/// Scores are fp32 sums everywhere, but tensor cores cut off what the host's sums round.
inline double lse_tolerance(DType t) {
  return t == DType::f32 || device_is_host() ? 2e-6 : 1e-5;
}

/// What attention() and attention_grad() made of some operands.
struct AttentionResults {
  Array o, lse, dq, dk, dv;
};

/// The scratch of one back end, forward and backward.
struct ScratchBytes {
  std::size_t forward, backward;
};

/// Runs one back end forward and backward. `positions` is empty without documents.
template <class ForwardCall, class BackwardCall>
AttentionResults run_attention(const AttentionShape& s, DType t, const Tensors& x, const Tokens& positions,
                               ScratchBytes scratch_bytes, ForwardCall forward, BackwardCall backward) {
  const Device q(x.q, t), k(x.k, t), v(x.v, t), dout(x.dout, t);
  const auto queries = static_cast<std::int64_t>(x.q.size());
  const auto keys = static_cast<std::int64_t>(x.k.size());
  const DeviceTokens begins(positions.empty() ? Tokens{0} : positions);
  const std::int32_t* const given = positions.empty() ? nullptr : begins.data();
  const Device o(queries, t), lse(queries / s.head_dim, DType::f32);
  const Buffer forward_work = scratch(scratch_bytes.forward);
  forward(q.data(), k.data(), v.data(), o.data(), lse.as<float>(), forward_work.data(), given);

  const Device dq(queries, t), dk(keys, t), dv(keys, t);
  const Buffer work = scratch(scratch_bytes.backward);
  backward(AttentionGrad{q.data(), k.data(), v.data(), o.data(), lse.as<float>(), dout.data(), dq.data(),
                         dk.data(), dv.data(), work.data(), given});
  return {o.read(), lse.read(), dq.read(), dk.read(), dv.read()};
}

/// Runs one back end forward and backward, and compares both with the reference.
template <class ForwardCall, class BackwardCall>
void check(const AttentionShape& s, DType t, ScratchBytes scratch_bytes, ForwardCall forward,
           BackwardCall backward, const Tokens& positions = {}) {
  SCOPED_TRACE(testing::Message() << name_of(t) << " B " << s.batch << " T " << s.seq << " H " << s.heads
                                  << " Hkv " << s.kv_heads << " D " << s.head_dim << ", place " << s.place
                                  << " of " << s.context << (positions.empty() ? "" : ", documents"));
  const Tensors x = tensors(s, t);
  const AttentionResults made = run_attention(s, t, x, positions, scratch_bytes, forward, backward);
  const auto expected = reference::attention(s, x.q, x.k, x.v, positions);
  expect_close("o", made.o, expected.o, t);
  EXPECT_TRUE(close(made.lse, expected.lse, lse_tolerance(t), positions.empty() ? 0 : 1e-6)) << "lse";

  const auto grads = reference::attention_grad(s, x.q, x.k, x.v, made.o, x.dout, positions);
  const double floor = positions.empty() ? 1e-6 : 1e-5;  // a query that sees itself only has zeros here
  expect_close("dq", made.dq, grads.dq, t, floor);
  expect_close("dk", made.dk, grads.dk, t, floor);
  expect_close("dv", made.dv, grads.dv, t);
}

inline void check_default(const AttentionShape& s, DType t, const Tokens& positions = {}) {
  const bool documents = !positions.empty();
  check(
      s, t, {attention_scratch_bytes(s, t, documents), attention_grad_scratch_bytes(s, t, documents)},
      [&](auto... arguments) { attention(space(), s, t, arguments...); },
      [&](const AttentionGrad& grad) { attention_grad(space(), s, t, grad); }, positions);
}

inline void check_team(const AttentionShape& s, DType t, const Tokens& positions = {}) {
  check(
      s, t, {team::attention_scratch_bytes(s, t), team::attention_grad_scratch_bytes(s, t)},
      [&](auto... arguments) { team::attention(space(), s, t, arguments...); },
      [&](const AttentionGrad& grad) { team::attention_grad(space(), s, t, grad); }, positions);
}

}  // namespace weft::kernels::rig
