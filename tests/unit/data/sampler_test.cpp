#include "data/sampler.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <set>

#include "data/batch_source.hpp"
#include "data/permutation.hpp"
#include "data/validation_source.hpp"
#include "unit/data/text_files.hpp"

namespace weft::data {
namespace {

using test::expect_error;
using test::TemporaryDirectory;
using test::WideTokenizer;
using test::write_byte_tokens;

struct Microbatch {
  std::vector<std::int32_t> tokens, targets, positions;
  explicit Microbatch(const BatchShape& s) {
    for (auto* v : {&tokens, &targets, &positions}) v->assign(static_cast<std::size_t>(s.batch * s.seq), -7);
  }
  bool operator==(const Microbatch&) const = default;
};

Microbatch fill(const BatchSource& source, const BatchShape& shape, std::int64_t step, std::int64_t m) {
  Microbatch b(shape);
  source.fill(step, m, b.tokens.data(), b.targets.data(), b.positions.data());
  return b;
}

/// A file whose token i is a hash of i, so that a shifted sequence is seen.
TokenFile made_up_tokens(const TemporaryDirectory& dir, std::size_t count, const char* name = "t.bin") {
  const RandomStream random(1, "test.tokens");
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<std::int32_t>(random.bits(i) % 257);
  write_byte_tokens(dir / name, ids);
  return TokenFile::open(dir / name);
}

TEST(Sequences, PositionsBeginAgainWithEachDocument) {
  const TemporaryDirectory dir;
  const std::int32_t end = 256;
  write_byte_tokens(dir / "t.bin", {1, 2, end, 3, 4, 5, end, end, 6, 7, 8});
  const TokenFile file = TokenFile::open(dir / "t.bin");
  std::array<std::int32_t, 5> tokens{}, targets{}, positions{};
  const Sequences documents({file}, 5, Positions::of_document), plain({file}, 5);
  documents.copy(0, tokens.data(), targets.data(), positions.data());
  EXPECT_EQ(positions, (std::array<std::int32_t, 5>{0, 1, 2, 0, 1}));
  // A sequence's positions begin with 0, whatever was before.
  documents.copy(1, tokens.data(), targets.data(), positions.data());
  EXPECT_EQ(tokens, (std::array<std::int32_t, 5>{5, end, end, 6, 7}));
  EXPECT_EQ(positions, (std::array<std::int32_t, 5>{0, 1, 0, 0, 1}));
  plain.copy(1, tokens.data(), targets.data(), positions.data());
  EXPECT_EQ(positions, (std::array<std::int32_t, 5>{0, 1, 2, 3, 4}));
}

TEST(Permutation, IsABijectionInEveryEpoch) {
  for (const std::uint64_t n : {1, 2, 3, 10, 1000, 65537}) {
    const Permutation permutation(17, n);
    for (const std::uint64_t epoch : {0, 1, 12345}) {
      std::vector<bool> seen(n);
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t at = permutation.at(epoch, i);
        ASSERT_LT(at, n);
        ASSERT_FALSE(seen[at]);
        seen[at] = true;
      }
    }
  }
}

// tests/golden/shuffle.py prints these values.
TEST(Permutation, IsThePythonOne) {
  struct Case {
    std::uint64_t seed, n;
    std::vector<std::uint64_t> samples, sequences;
  };
  const std::vector<Case> cases{
      {1, 1, {0, 1, 2, 0, 1, 2, 5}, {0, 0, 0, 0, 0, 0, 0}},
      {1, 2, {0, 1, 2, 1, 2, 3, 11}, {1, 0, 1, 0, 1, 0, 0}},
      {7, 10, {0, 1, 2, 9, 10, 11, 55}, {6, 9, 1, 7, 8, 0, 6}},
      {1234567890123456789, 1000, {0, 1, 2, 999, 1000, 1001, 5500}, {316, 37, 669, 293, 876, 559, 875}},
      {42, 65537, {0, 1, 2, 65536, 65537, 65538, 360453}, {22572, 25713, 25941, 29883, 16810, 5980, 51834}},
      {3,
       1000000000000,
       {0, 1, 2, 999999999999, 1000000000000, 1000000000001, 5500000000000},
       {125724844648, 523983191193, 496691537348, 525172822631, 607417634436, 291550432335, 727920865545}},
  };
  for (const Case& c : cases) {
    const Permutation permutation(c.seed, c.n);
    for (std::size_t i = 0; i < c.samples.size(); ++i)
      EXPECT_EQ(permutation.at(c.samples[i] / c.n, c.samples[i] % c.n), c.sequences[i])
          << "seed " << c.seed << " sample " << c.samples[i];
  }
}

// The chance that i comes before j is one half, and neighbours do not stay neighbours.
TEST(Permutation, LooksRandom) {
  constexpr std::uint64_t n = 4096;
  const Permutation permutation(3, n);
  std::int64_t rising = 0, near = 0;
  double product = 0;
  for (std::uint64_t i = 0; i + 1 < n; ++i) {
    const auto a = static_cast<double>(permutation.at(0, i)),
               b = static_cast<double>(permutation.at(0, i + 1));
    rising += a < b;
    near += std::abs(a - b) < 41;
    product += (static_cast<double>(i) - 2047.5) * (a - 2047.5);
  }
  EXPECT_NEAR(static_cast<double>(rising) / n, 0.5, 0.04);
  EXPECT_NEAR(static_cast<double>(near) / n, 0.02, 0.01);
  // This is the rank correlation, whose sigma is 0.016.
  EXPECT_LT(std::abs(product / (n * (n * static_cast<double>(n) - 1) / 12)), 0.08);
}

TEST(Sampler, ReadsEachWindowOnceAnEpoch) {
  const TemporaryDirectory dir;
  const std::int64_t seq = 8;
  const TokenFile file = made_up_tokens(dir, 8 * 50 + 5);
  const Sampler sampler(Sequences({file}, seq), 9);
  ASSERT_EQ(sampler.samples_per_epoch(), 50);
  std::vector<std::int64_t> orders[3];
  for (std::int64_t sample = 0; sample < 150; ++sample)
    orders[sample / 50].push_back(sampler.sequence(sample));
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
  for (auto& order : orders) {
    std::sort(order.begin(), order.end());
    for (std::int64_t w = 0; w < 50; ++w) EXPECT_EQ(order[static_cast<std::size_t>(w)], w);
  }
  const Sampler other(Sequences({file}, seq), 10);
  EXPECT_NE(other.sequence(0) * 1000000 + other.sequence(1),
            sampler.sequence(0) * 1000000 + sampler.sequence(1));

  std::vector<std::int32_t> all(static_cast<std::size_t>(file.tokens()));
  file.read(0, file.tokens(), all.data());
  std::int32_t tokens[8], targets[8], positions[8];
  for (const std::int64_t sample : {0, 7, 49, 50, 149}) {
    sampler.fill(sample, tokens, targets, positions);
    const auto begin = static_cast<std::size_t>(sampler.sequence(sample) * seq);
    for (std::size_t p = 0; p < 8; ++p) {
      EXPECT_EQ(tokens[p], all[begin + p]);
      EXPECT_EQ(targets[p], all[begin + p + 1]);
      EXPECT_EQ(positions[p], static_cast<std::int32_t>(p));
    }
  }
}

TEST(Sequences, OfAFileAreWhole) {
  const TemporaryDirectory dir;
  const TokenFile file = made_up_tokens(dir, 10);
  EXPECT_EQ(Sequences({file}, 9).count(), 1);
  expect_error([&] { Sequences({file}, 10); }, {"t.bin", "10 tokens", "data.seq is 10"});
}

TEST(Sequences, OfSeveralFilesAreThoseOfEachInOrder) {
  const TemporaryDirectory dir;
  const std::int64_t seq = 5;
  const std::vector<TokenFile> files{made_up_tokens(dir, 3 * 5 + 1, "a.bin"),
                                     made_up_tokens(dir, 5 + 4, "b.bin"),
                                     made_up_tokens(dir, 2 * 5 + 3, "c.bin")};
  const Sequences all(files, seq);
  ASSERT_EQ(all.count(), 3 + 1 + 2);
  std::int64_t w = 0, bytes = 0;
  for (const TokenFile& file : files) {
    const Sequences alone({file}, seq);
    for (std::int64_t i = 0; i < alone.count(); ++i, ++w) {
      std::int32_t mine[3][5], expected[3][5];
      all.copy(w, mine[0], mine[1], mine[2]);
      alone.copy(i, expected[0], expected[1], expected[2]);
      EXPECT_EQ(std::memcmp(mine, expected, sizeof mine), 0) << "sequence " << w;
    }
    bytes += alone.target_bytes(0, alone.count());
  }
  EXPECT_EQ(all.target_bytes(0, 6), bytes);
  EXPECT_EQ(all.target_bytes(2, 5), all.target_bytes(2, 3) + all.target_bytes(3, 4) + all.target_bytes(4, 5));
}

TEST(Sequences, AreOfOneTokenizer) {
  const TemporaryDirectory dir;
  const auto made_by = [&](const std::string& name, const WideTokenizer& tokenizer) {
    TokenFileWriter writer(dir / name, tokenizer);
    writer.append(std::vector<std::int32_t>(20, 65));
    writer.finish();
    return TokenFile::open(dir / name);
  };
  // Token files that were made elsewhere may all have a 0 for the tokenizer's hash.
  const TokenFile file = made_by("a.bin", WideTokenizer(300, 0));
  EXPECT_EQ(Sequences({file, made_by("same.bin", WideTokenizer(300, 0))}, 5).count(), 6);
  const std::vector<std::pair<WideTokenizer, std::string>> others{
      {WideTokenizer(300, 99), "hashes are 0000000000000063 and 0000000000000000"},
      {WideTokenizer(301, 0), "the vocabularies have 301 and 300 tokens"},
      {WideTokenizer(300, 0, 1), "documents end with token 1 and with token 0"},
      {WideTokenizer(300, 0, 0, 6), "token 6 stands for 0 bytes and for 6"}};
  for (const auto& [tokenizer, difference] : others) {
    const TokenFile other = made_by("other.bin", tokenizer);
    expect_error(
        [&] {
          Sequences({file, other}, 5);
        },
        {"other.bin was made by another tokenizer", "a.bin", difference,
         "`weft data tokenize --tokenizer FILE`"});
  }
}

/// The samples of four steps as the ranks of a world of this size fill them, put in the order of the global
/// microbatch.
std::vector<Microbatch> run(const BatchSource& source, const BatchShape& shape, int world) {
  std::vector<Microbatch> in_order;
  const std::int64_t rounds = shape.global_batch / (shape.batch * world);
  for (std::int64_t step = 0; step < 4; ++step) {
    std::vector<std::vector<Microbatch>> of_rank(static_cast<std::size_t>(world));
    for (int rank = world - 1; rank >= 0; --rank)
      for (std::int64_t round = 0; round < rounds; ++round)
        of_rank[static_cast<std::size_t>(rank)].push_back(fill(source, shape, step, round * world + rank));
    for (std::int64_t round = 0; round < rounds; ++round)
      for (const auto& batches : of_rank) in_order.push_back(batches[static_cast<std::size_t>(round)]);
  }
  return in_order;
}

TEST(BatchSource, IsTheSameForAnyNumberOfRanks) {
  const TemporaryDirectory dir;
  const BatchShape shape{.batch = 2, .global_batch = 24, .seq = 5};
  const Sampler sampler(Sequences({made_up_tokens(dir, 5 * 37 + 1)}, 5), 4);  // epochs end inside of a step
  const auto from_file = file_batches(sampler, shape), synthetic = synthetic_batches(4, 100, shape);
  for (const BatchSource* source : {from_file.get(), synthetic.get()}) {
    const auto alone = run(*source, shape, 1);
    for (const int world : {2, 3, 4, 6}) EXPECT_EQ(run(*source, shape, world), alone) << world;
  }
  // Rows are consecutive samples.
  const Microbatch b = fill(*from_file, shape, 3, 7);
  std::int32_t tokens[5], targets[5], positions[5];
  for (std::int64_t row = 0; row < 2; ++row) {
    sampler.fill(3 * 24 + 7 * 2 + row, tokens, targets, positions);
    EXPECT_TRUE(std::equal(tokens, tokens + 5, b.tokens.begin() + row * 5));
    EXPECT_TRUE(std::equal(targets, targets + 5, b.targets.begin() + row * 5));
    EXPECT_TRUE(std::equal(positions, positions + 5, b.positions.begin() + row * 5));
  }
}

// tests/golden/shuffle.py prints these values.
TEST(BatchSource, SyntheticTokensAreThePythonOnes) {
  struct Case {
    std::uint64_t seed;
    std::int64_t vocab, seq, sample;
    std::vector<std::int32_t> tokens;
  };
  const std::vector<Case> cases{
      {1, 10, 7, 0, {6, 0, 3, 7, 6, 0, 3, 4}},
      {7, 300, 3, 5, {41, 50, 132, 251}},
      {1234567890123456789, 128256, 4, 1000000000003, {20939, 9040, 33156, 60096, 51650}},
      {42, 2147483647, 1, 1, {1116234322, 1528956993}},
  };
  for (const Case& c : cases) {
    const BatchShape shape{.batch = 2, .global_batch = 4, .seq = c.seq};
    const auto source = synthetic_batches(c.seed, c.vocab, shape);
    const Microbatch b = fill(*source, shape, c.sample / 4, c.sample % 4 / 2);
    const auto row = static_cast<std::size_t>(c.sample % 2), seq = static_cast<std::size_t>(c.seq);
    for (std::size_t p = 0; p < seq; ++p) {
      EXPECT_EQ(b.tokens[row * seq + p], c.tokens[p]) << "seed " << c.seed << " position " << p;
      EXPECT_EQ(b.targets[row * seq + p], c.tokens[p + 1]) << "seed " << c.seed << " position " << p;
    }
  }
}

TEST(BatchSource, SyntheticTokensAreUniform) {
  const BatchShape shape{.batch = 8, .global_batch = 8, .seq = 500};
  const auto source = synthetic_batches(1, 10, shape);
  std::vector<int> counts(10);
  for (std::int64_t step = 0; step < 5; ++step) {
    const Microbatch b = fill(*source, shape, step, 0);
    for (const std::int32_t t : b.tokens) ++counts.at(static_cast<std::size_t>(t));
    for (std::size_t i = 0; i + 1 < 500; ++i) ASSERT_EQ(b.tokens[i + 1], b.targets[i]);
    EXPECT_EQ(b.positions[499], 499);
    EXPECT_EQ(b.positions[500], 0);
  }
  for (const int count : counts) EXPECT_NEAR(count, 2000, 200);  // sigma is 42
  EXPECT_NE(fill(*source, shape, 0, 0), fill(*synthetic_batches(2, 10, shape), shape, 0, 0));
}

TEST(ValidationSource, WalksTheFileOnceAndCountsItsBytes) {
  const TemporaryDirectory dir;
  const TokenFile file = made_up_tokens(dir, 7 * 11 + 4);  // 11 sequences, and a rest
  const BatchShape shape{.batch = 4, .global_batch = 4, .seq = 7};
  const ValidationSource source(Sequences({file}, 7), 4);
  ASSERT_EQ(source.sequences(), 11);
  ASSERT_EQ(source.microbatches(), 3);
  std::vector<std::int32_t> all(static_cast<std::size_t>(file.tokens())), predicted;
  file.read(0, file.tokens(), all.data());
  std::int64_t bytes = 0, ignored = 0;
  for (std::int64_t m = 0; m < 5; ++m) {  // two microbatches more than there are
    Microbatch b(shape);
    source.fill(m, b.tokens.data(), b.targets.data(), b.positions.data());
    std::int64_t of_batch = 0;
    for (std::size_t i = 0; i < b.targets.size(); ++i) {
      EXPECT_EQ(b.positions[i], static_cast<std::int32_t>(i % 7));
      if (b.targets[i] < 0) {
        EXPECT_EQ(b.targets[i], -1);
        EXPECT_EQ(b.tokens[i], 0);
        ++ignored;
        continue;
      }
      EXPECT_EQ(b.tokens[i], all[predicted.size()]);
      predicted.push_back(b.targets[i]);
      of_batch += b.targets[i] < 256;
    }
    EXPECT_EQ(source.bytes(m), of_batch);
    bytes += of_batch;
  }
  EXPECT_EQ(ignored, 7 + 2 * 28);
  EXPECT_EQ(predicted, std::vector<std::int32_t>(all.begin() + 1, all.begin() + 78));
  EXPECT_EQ(source.total_bytes(), bytes);
  EXPECT_EQ(source.total_targets(), 77);

  const ValidationSource limited(Sequences({file}, 7), 4, 5);
  EXPECT_EQ(limited.sequences(), 5);
  EXPECT_EQ(limited.microbatches(), 2);
  EXPECT_EQ(limited.total_bytes(), source.bytes(0) + file.bytes_of(4 * 7 + 1, 7));
}

}  // namespace
}  // namespace weft::data
