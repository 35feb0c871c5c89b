#include "kernels/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "attention_checks.hpp"
#include "base/device.hpp"
#include "kernels/attention_backends.hpp"
#include "kernels/attention_parts.hpp"
#include "rig.hpp"

#ifdef WEFT_CUDNN
#include "kernels/attention_cudnn.hpp"
#endif

namespace weft::kernels {
namespace {

using namespace rig;

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

/// This is what training uses: wide heads, and sequences that are, and are not, whole tiles of 64 and 128.
TEST(Attention, WideHeadsAndTiles) {
  for (DType t : float_types)
    for (std::int64_t head_dim : {64, 128})
      for (std::int64_t seq : {128, 192, 200, 256})
        check_default({2, seq, 4, head_dim == 64 ? 2 : 4, head_dim}, t);
}

TEST(Attention, GivesTheSameBitsAgain) {
  const AttentionShape s{2, 300, 8, 2, 64};
  const DType t = DType::bf16;
  const Tensors x = tensors(s, t);
  const auto queries = static_cast<std::int64_t>(x.q.size()), keys = static_cast<std::int64_t>(x.k.size());
  const Device q(x.q, t), k(x.k, t), v(x.v, t), dout(x.dout, t);
  std::vector<std::vector<std::byte>> first;
  for (int i = 0; i < 3; ++i) {
    const Device o(queries, t), lse(s.batch * s.heads * s.seq, DType::f32), dq(queries, t), dk(keys, t),
        dv(keys, t);
    attention(space(), s, t, q.data(), k.data(), v.data(), o.data(), lse.as<float>(),
              scratch(attention_scratch_bytes(s, t)).data());
    attention_grad(space(), s, t,
                   {q.data(), k.data(), v.data(), o.data(), lse.as<float>(), dout.data(), dq.data(),
                    dk.data(), dv.data(), scratch(attention_grad_scratch_bytes(s, t)).data()});
    const std::vector<std::vector<std::byte>> bits{o.bytes(), lse.bytes(), dq.bytes(), dk.bytes(),
                                                   dv.bytes()};
    if (i == 0) first = bits;
    EXPECT_TRUE(bits == first) << "call " << i;
  }
}

TEST(Attention, PartsMakeUpTheWhole) {
  const AttentionShape whole{6, 100, 32, 8, 64};
  EXPECT_EQ(part_of(whole, 1000), whole);
  EXPECT_EQ(part_of(whole, 191), (AttentionShape{3, 100, 32, 8, 64}));  // four sequences do not divide six
  EXPECT_EQ(part_of(whole, 32), (AttentionShape{1, 100, 32, 8, 64}));
  EXPECT_EQ(part_of(whole, 31), (AttentionShape{1, 100, 16, 4, 64}));
  EXPECT_EQ(part_of(whole, 8), (AttentionShape{1, 100, 8, 2, 64}));
  EXPECT_EQ(part_of(whole, 4), (AttentionShape{1, 100, 4, 1, 64}));
  EXPECT_EQ(part_of(whole, 3), (AttentionShape{1, 100, 2, 1, 64}));
  EXPECT_EQ(part_of(whole, 0), (AttentionShape{1, 100, 1, 1, 64}));
  const AttentionShape odd{1, 102, 32, 8, 64};
  EXPECT_EQ(part_of(odd, 1), (AttentionShape{1, 102, 2, 1, 64})) << "one head has 102 rows";
  EXPECT_EQ(part_of(odd, 3), (AttentionShape{1, 102, 2, 1, 64}));
}

#ifdef WEFT_CUDNN
/// Of three sequences and four heads, the bounds leave one head, one kv head, one sequence, and all.
void check_cudnn_in_parts(const AttentionShape& s) {
  const std::size_t all = cudnn::AttentionBackward(s, SIZE_MAX).workspace_bytes();
  std::size_t before = 0;
  for (const std::size_t bound : {std::size_t{0}, all / 5, all / 2, all}) {
    cudnn::Attention fused(s);
    cudnn::AttentionBackward backward(s, bound);
    EXPECT_LE(backward.workspace_bytes(), bound == 0 ? all / 11 : bound);
    EXPECT_GT(backward.workspace_bytes(), before) << "the parts of the bound before";
    before = backward.workspace_bytes();
    check(
        s, DType::bf16, {fused.scratch_bytes(), backward.scratch_bytes()},
        [&](const void* q, const void* k, const void* v, void* o, float* lse, void* work,
            const std::int32_t*) { fused.run(space(), q, k, v, o, lse, work); },
        [&](const AttentionGrad& grad) { backward.run(space(), grad); });
  }
}

TEST(Attention, CudnnBackwardInParts) {
  check_cudnn_in_parts({3, 256, 4, 2, 64});
}

TEST(Attention, CudnnBackwardInPartsAtEachPlaceOfAContext) {
  for (const int context : {2, 3})
    for (int place = 0; place < context; ++place)
      check_cudnn_in_parts({3, 128 * context, 4, 2, 64, context, place});
}

/// Scratch is planned once for all places.
TEST(Attention, CudnnWantsTheMostScratchAtTheFirstPlace) {
  AttentionShape s{2, 768, 4, 2, 64, 3, 0};
  const std::size_t forward = cudnn::Attention(s).scratch_bytes(),
                    backward = cudnn::AttentionBackward(s, SIZE_MAX).workspace_bytes(),
                    scratch = attention_grad_scratch_bytes(s, DType::bf16);
  for (s.place = 1; s.place < s.context; ++s.place) {
    EXPECT_LE(cudnn::Attention(s).scratch_bytes(), forward);
    EXPECT_LE(cudnn::AttentionBackward(s, SIZE_MAX).workspace_bytes(), backward);
    EXPECT_EQ(attention_grad_scratch_bytes(s, DType::bf16), scratch);
  }
}

TEST(Attention, CudnnRefusesWhatItCannotDo) {
  EXPECT_THROW(cudnn::Attention({1, 64, 2, 2, 12}), cudnn::NotSupported);
  EXPECT_THROW(cudnn::AttentionBackward({1, 1, 2, 2, 64}, SIZE_MAX), cudnn::NotSupported);
  const AttentionShape sections{1, 4 * 65, 2, 2, 64, 2, 1};
  EXPECT_THROW(cudnn::Attention{sections}, cudnn::NotSupported);
  EXPECT_THROW(cudnn::AttentionBackward(sections, SIZE_MAX), cudnn::NotSupported);
  const cudnn::AttentionBackward last({1, 256, 2, 2, 64, 2, 1}, SIZE_MAX);
  EXPECT_THROW(cudnn::AttentionBackward({1, 256, 2, 2, 64, 2, 0}, last), cudnn::NotSupported)
      << "more scratch";
}

/// The shapes are those of no other test, because each is prepared once in a process.
TEST(Attention, WithoutTensorCoresIsWarnedOf) {
  const auto told = [](const AttentionShape& s) {
    testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) prepare_attention_grad(s, DType::bf16);
    return testing::internal::GetCapturedStderr();
  };
  const std::string line = told({1, 11, 13, 13, 64});
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  for (const char* part :
       {"warning: rank 0: attention_grad of batch 1, seq 11, heads 13, kv_heads 13, head_dim 64 "
        "runs without tensor cores",
        "(the log-sum-exps of all heads and tokens are no multiple of 16 bytes); a newer "
        "cuDNN may, or another shape"})
    EXPECT_NE(line.find(part), std::string::npos) << line;
  EXPECT_EQ(told({1, 12, 13, 13, 64}), "");
}
#endif

TEST(Attention, TeamBackEnd) {
  for (DType t : float_types) {
    for (std::int64_t seq : {1, 3, 15, 16, 17, 31, 33, 64, 97}) check_team({2, seq, 4, 2, 8}, t);
    for (std::int64_t head_dim : {1, 17, 128, 256}) check_team({1, 37, 3, 1, head_dim}, t);
  }
}

/// The rows of tokens [first, end) of a sequence, with `width` numbers each.
Array rows_of(const Array& x, std::int64_t width, std::int64_t first, std::int64_t end) {
  return {x.begin() + first * width, x.begin() + end * width};
}

/// Compares documents side by side in a sequence with each of them by itself.
template <class Forward, class Backward>
void check_documents(AttentionShape s, DType t, std::int64_t longest, ScratchBytes bytes, Forward forward,
                     Backward backward) {
  SCOPED_TRACE(testing::Message() << name_of(t) << " T " << s.seq << " D " << s.head_dim
                                  << " documents below " << longest);
  const Tensors x = tensors(s, t);
  const Tokens lengths = random_tokens(s.batch * s.seq, longest, 9);  // lengths less one
  Tokens positions;
  std::vector<std::pair<std::int64_t, std::int64_t>> documents;  // ranges of tokens, over all sequences
  for (std::int64_t first = 0; first < s.batch * s.seq;) {
    const std::int64_t rest = s.seq - first % s.seq;
    const std::int64_t length = std::min<std::int64_t>(rest, 1 + lengths[static_cast<std::size_t>(first)]);
    for (std::int64_t i = 0; i < length; ++i) positions.push_back(static_cast<std::int32_t>(i));
    documents.emplace_back(first, first + length);
    first += length;
  }
  const DeviceTokens begins(positions);
  const Device q(x.q, t), k(x.k, t), v(x.v, t), dout(x.dout, t);
  const auto queries = static_cast<std::int64_t>(x.q.size()), keys = static_cast<std::int64_t>(x.k.size());
  const Device o(queries, t), lse(s.batch * s.heads * s.seq, DType::f32), dq(queries, t), dk(keys, t),
      dv(keys, t);
  const Buffer forward_work = scratch(bytes.forward), work = scratch(bytes.backward);
  forward(q.data(), k.data(), v.data(), o.data(), lse.as<float>(), forward_work.data(), begins.data());
  backward(AttentionGrad{q.data(), k.data(), v.data(), o.data(), lse.as<float>(), dout.data(), dq.data(),
                         dk.data(), dv.data(), work.data(), begins.data()});

  const std::int64_t wide = s.heads * s.head_dim, narrow = s.kv_heads * s.head_dim;
  Array expected_o, expected_dq, expected_dk, expected_dv;
  const Array made = o.read(), sums = lse.read();
  for (const auto& [first, end] : documents) {
    const AttentionShape one{1, end - first, s.heads, s.kv_heads, s.head_dim};
    const Array q1 = rows_of(x.q, wide, first, end), k1 = rows_of(x.k, narrow, first, end),
                v1 = rows_of(x.v, narrow, first, end);
    const auto [o1, lse1] = reference::attention(one, q1, k1, v1);
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t at = (first / s.seq * s.heads + h) * s.seq + first % s.seq;
      EXPECT_TRUE(close(rows_of(sums, 1, at, at + one.seq), rows_of(lse1, 1, h * one.seq, (h + 1) * one.seq),
                        lse_tolerance(t), 1));
    }
    const auto grads = reference::attention_grad(one, q1, k1, v1, rows_of(made, wide, first, end),
                                                 rows_of(x.dout, wide, first, end));
    expected_o.insert(expected_o.end(), o1.begin(), o1.end());
    expected_dq.insert(expected_dq.end(), grads.dq.begin(), grads.dq.end());
    expected_dk.insert(expected_dk.end(), grads.dk.begin(), grads.dk.end());
    expected_dv.insert(expected_dv.end(), grads.dv.begin(), grads.dv.end());
  }
  expect_close("o", made, expected_o, t);
  expect_close("dq", dq.read(), expected_dq, t, 1e-5);  // a document of one token has zeros here
  expect_close("dk", dk.read(), expected_dk, t, 1e-5);
  expect_close("dv", dv.read(), expected_dv, t);
}

TEST(Attention, DocumentsSideBySideAreApart) {
  for (DType t : float_types)
    for (std::int64_t longest : {2, 40, 150, 1000})
      for (const AttentionShape& s : {AttentionShape{2, 333, 4, 2, 16}, AttentionShape{1, 600, 2, 1, 64}}) {
        check_documents(
            s, t, longest, {attention_scratch_bytes(s, t, true), attention_grad_scratch_bytes(s, t, true)},
            [&](auto... arguments) { attention(space(), s, t, arguments...); },
            [&](const AttentionGrad& grad) { attention_grad(space(), s, t, grad); });
        if (s.seq < 400)
          check_documents(
              s, t, longest, {team::attention_scratch_bytes(s, t), team::attention_grad_scratch_bytes(s, t)},
              [&](auto... arguments) { team::attention(space(), s, t, arguments...); },
              [&](const AttentionGrad& grad) { team::attention_grad(space(), s, t, grad); });
      }
}

TEST(AttentionDeathTest, DocumentsAreWarnedOfOnAGpu) {
  const AttentionShape shape{1, 8, 2, 1, 8};
  testing::internal::CaptureStderr();
  attention_scratch_bytes(shape, DType::f32, true);  // all of fp32 goes without tensor cores
  attention_scratch_bytes(shape, DType::bf16, false);
  if (device_is_host()) attention_scratch_bytes(shape, DType::bf16, true);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  if (device_is_host()) return;
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // a process of its own, because each is told once
  const auto plan = [&] {
    attention_scratch_bytes(shape, DType::bf16, true);
    std::_Exit(0);
  };
  EXPECT_EXIT(plan(), testing::ExitedWithCode(0),
              "warning: rank 0: attention within documents runs without tensor cores on a GPU, .*; "
              "with data.document_mask = false cuDNN computes it where it can");
}

TEST(Attention, LargeScoresDoNotOverflow) {
  for (DType t : float_types) {
    const AttentionShape s{1, 300, 1, 1, 8};
    Tensors x = tensors(s, t);
    for (double& value : x.q) value *= 128;
    const Device o(300 * 8, t), lse(300, DType::f32);
    attention(space(), s, t, Device(x.q, t).data(), Device(x.k, t).data(), Device(x.v, t).data(), o.data(),
              lse.as<float>(), scratch(attention_scratch_bytes(s, t)).data());
    const auto expected = reference::attention(s, x.q, x.k, x.v);
    EXPECT_TRUE(close(o.read(), expected.o, t == DType::f32 ? 1e-3 : 1e-2)) << name_of(t);
    EXPECT_TRUE(close(lse.read(), expected.lse, 1e-5)) << name_of(t);
  }
}

/// A NaN in a query shows in its own output, and one in a key in those of all queries that see it, and in no
/// other.
TEST(Attention, ShowsNaN) {
  const AttentionShape s{1, 300, 1, 1, 32};
  for (DType t : float_types)
    for (const bool of_query : {true, false})
      for (const std::int64_t token : {0, 15, 16, 31, 140, 299}) {
        Tensors x = tensors(s, t);
        (of_query ? x.q : x.k)[static_cast<std::size_t>(token * 32 + 5)] = NAN;
        const Device o(300 * 32, t), lse(300, DType::f32);
        attention(space(), s, t, Device(x.q, t).data(), Device(x.k, t).data(), Device(x.v, t).data(),
                  o.data(), lse.as<float>(), scratch(attention_scratch_bytes(s, t)).data());
        const Array made = o.read(), sums = lse.read();
        for (std::int64_t i = 0; i < s.seq; ++i) {
          const bool expected = of_query ? i == token : i >= token;
          ASSERT_EQ(std::isnan(made[static_cast<std::size_t>(i * 32)]), expected)
              << name_of(t) << (of_query ? " query " : " key ") << token << ", of " << i;
          ASSERT_EQ(std::isnan(sums[static_cast<std::size_t>(i)]), expected)
              << name_of(t) << (of_query ? " query " : " key ") << token << ", sum of " << i;
        }
      }
}

TEST(Attention, RefusesShapesItCannotDo) {
  for (const AttentionShape& s :
       {AttentionShape{1, 4, 3, 2, 8}, AttentionShape{1, 4, 2, 2, 257}, AttentionShape{1, 6, 2, 2, 8, 2, 0},
        AttentionShape{1, 8, 2, 2, 8, 2, 2}, AttentionShape{1, 8, 2, 2, 8, 2, -1},
        AttentionShape{1, 8, 2, 2, 8, 1, 1}, AttentionShape{1, 8, 2, 2, 8, 0, 0}})
    EXPECT_THROW(attention(space(), s, DType::f32, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
                 std::logic_error);
}

}  // namespace
}  // namespace weft::kernels
