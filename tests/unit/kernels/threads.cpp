// Tests that bits do not depend on the number of host threads. Kokkos fixes that number when it starts, so
// the test runs this program again with another OMP_NUM_THREADS, and compares the hashes that it prints.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/core.h>

#include "base/device.hpp"
#include "base/hash.hpp"
#include "kernels/attention_backends.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/matmul.hpp"
#include "kernels/swiglu.hpp"
#include "kernels/update.hpp"
#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

std::uint64_t hash_of(const Device& d, std::uint64_t seed) {
  const auto bytes = d.bytes();
  return hash_bytes(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash_attention(const AttentionShape& s, DType t, std::uint64_t hash) {
  const std::int64_t rows = s.runs() * s.batch * s.queries() * s.heads, queries = rows * s.head_dim;
  const std::int64_t keys = s.batch * s.seq * s.kv_heads * s.head_dim;
  const Device q(random(queries, t, 1), t), k(random(keys, t, 2), t), v(random(keys, t, 3), t);
  const Device dout(random(queries, t, 4), t), o(queries, t), lse(rows, DType::f32);
  const Device dq(queries, t), dk(keys, t), dv(keys, t);
  const Buffer forward_work = scratch(attention_scratch_bytes(s, t));
  attention(space(), s, t, q.data(), k.data(), v.data(), o.data(), lse.as<float>(), forward_work.data());
  const Buffer work = scratch(attention_grad_scratch_bytes(s, t));
  attention_grad(space(), s, t,
                 {q.data(), k.data(), v.data(), o.data(), lse.as<float>(), dout.data(), dq.data(), dk.data(),
                  dv.data(), work.data()});
  for (const Device* d : {&o, &lse, &dq, &dk, &dv}) hash = hash_of(*d, hash);
  return hash;
}

std::uint64_t hash_matmuls(DType t, std::uint64_t hash) {
  constexpr std::int64_t in = 96, out = 64;
  for (const F32Products way : {F32Products::split, F32Products::plain}) {
    if (bits_depend_on_threads(t, way)) continue;
    for (const std::int64_t rows : {33, 300, 5000})
      for (const auto form : {MatmulForm::forward, MatmulForm::dgrad, MatmulForm::wgrad}) {
        const Device a(random(rows * in, t, 1), t), b(random(std::max(rows, out) * in, t, 2), t);
        const Device c(Array(static_cast<std::size_t>(std::max(rows, out) * in), 0), t);
        Matmul matmul({form, rows, in, out, t, t, false, way});
        matmul.run(space(), a.data(), b.data(), c.data(), scratch(matmul.scratch_bytes()).data());
        hash = hash_of(c, hash);
      }
  }
  return hash;
}

std::uint64_t hash_rms_norm(DType t, DType w_type, std::uint64_t hash) {
  const RowShape shape{1000, 129};
  const std::int64_t n = 1000 * 129;
  const Device x(random(n, t, 1), t), w(random(129, w_type, 2), w_type), dy(random(n, t, 3), t), y(n, t);
  const Device rstd(1000, DType::f32), dx(n, t), dw(129, DType::f32);
  rms_norm(space(), shape, t, x.data(), w.data(), w_type, 1e-5f, y.data(), rstd.as<float>());
  const Buffer work = scratch(rms_norm_grad_scratch_bytes(shape));
  rms_norm_grad(space(), shape, t,
                {x.data(), w.data(), w_type, rstd.as<float>(), dy.data(), nullptr, dx.data(), dw.data(),
                 DType::f32, work.data()});
  for (const Device* d : {&y, &rstd, &dx, &dw}) hash = hash_of(*d, hash);
  return hash;
}

std::uint64_t hash_ends(DType t, std::uint64_t hash) {
  const LossShape loss{1000, 77};
  const Tokens tokens = random_tokens(1000, 77, 5);
  const DeviceTokens targets(tokens);
  const Device logits(random(1000 * 77, t, 1), t), lse(1000, DType::f32), totals(2, DType::f64);
  cross_entropy(space(), loss, t, logits.data(), targets.data(), lse.as<float>(), totals.as<double>(),
                scratch(cross_entropy_scratch_bytes(loss)).data());
  const EmbeddingShape embed{1000, 77, 77};
  const Device dtable(77 * 77, DType::f32), product(1000 * 77, t);
  embedding_grad(space(), embed, t, targets.data(), logits.data(), DType::f32, dtable.data(),
                 scratch(embedding_grad_scratch_bytes(embed)).data());
  swiglu(space(), {1000, 77, 77}, t, logits.data(), logits.data(), product.data());
  for (const Device* d : {&lse, &totals, &dtable, &product}) hash = hash_of(*d, hash);
  return hash;
}

std::uint64_t hash_norm(std::uint64_t hash) {
  const Device g(random(300000, DType::f32, 1), DType::f32);
  const Buffer limbs(exact_limbs * sizeof(std::int64_t), "test");
  sum_squares(space(), 300000, g.as<float>(), reinterpret_cast<std::int64_t*>(limbs.data()));
  std::array<std::int64_t, exact_limbs> host{};
  copy_to_host(space(), host.data(), limbs.data(), limbs.size());
  return hash_bytes(host.data(), sizeof host, hash);
}

std::string bits() {
  std::uint64_t hash = 0;
  for (DType t : float_types) {
    for (const AttentionShape& s : {AttentionShape{2, 200, 4, 2, 32}, AttentionShape{2, 400, 4, 2, 32, 2, 1}})
      hash = hash_attention(s, t, hash);
    hash = hash_matmuls(t, hash);
    for (DType w : {t, DType::f32}) hash = hash_rms_norm(t, w, hash);
    hash = hash_ends(t, hash);
  }
  return fmt::format("{:016x}", hash_norm(hash));
}

/// The `bits=` line that this program prints with `threads` threads.
std::string bits_under(int threads) {
  std::array<char, 4096> path{};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) return "no /proc/self/exe";
  const std::string command = fmt::format(
      "env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX OMP_NUM_THREADS={} WEFT_PRINT_BITS=1 '{}' "
      "--gtest_filter=Threads.SameBits "
      "2>&1",
      threads, path.data());
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) output += line.data();
  pclose(pipe);
  const std::size_t found = output.find("bits=");
  return found == std::string::npos ? output : output.substr(found, 5 + 16 + 12);
}

TEST(Threads, SameBits) {
  if (std::getenv("WEFT_PRINT_BITS") != nullptr) {
    std::printf("bits=%s threads=%d  \n", bits().c_str(), concurrency());
    return;
  }
  const std::string one = bits_under(1), three = bits_under(3);
  EXPECT_EQ(one.substr(0, 21), three.substr(0, 21));
  EXPECT_EQ(one.substr(0, 5), "bits=") << one;
  if (device_is_host()) {
    EXPECT_NE(one.find("threads=1"), std::string::npos) << one;
    EXPECT_NE(three.find("threads=3"), std::string::npos) << three;
  }
}

}  // namespace
}  // namespace weft::kernels
