// Schemes that let an all-gather and a reduce-scatter progress while the host computes. bench_overlap.cpp
// compares them.
#pragma once

#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "base/check.hpp"

namespace weft::overlap {

/// The buffers of both collectives, and an MPI communicator for each.
struct Job {
  Job(double mib, int pause_us_) : pause_us(pause_us_) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    WEFT_VALIDATE(size > 1, "one rank exchanges nothing; start at least two");
    MPI_Comm_dup(MPI_COMM_WORLD, &gather);
    MPI_Comm_dup(MPI_COMM_WORLD, &reduce);
    count = static_cast<int>(mib * (1 << 20)) / 4 / (size - 1);
    for (int i = 0; i < count; ++i) own.push_back(element(rank, i));
    for (int i = 0; i < count * size; ++i) gradient.push_back(element(rank, i));
    gathered.resize(gradient.size());
    sum.resize(own.size());
  }
  /// An element of the input: a small whole number, so that sums are exact in any order.
  static float element(int rank, int i) { return static_cast<float>((7 * i + 3 * rank) % 61); }

  /// Calls look(what is there, what should be there) for some of the elements that a round receives.
  template <typename Look>
  void each_sample(Look look) {
    for (int i = 0; i < count; i += std::max(1, (count - 1) / 7)) {
      float total = 0;
      for (int r = 0; r < size; ++r) {
        look(gathered.data()[r * count + i], element(r, i));
        total += element(r, rank * count + i);
      }
      look(sum.data()[i], total);
    }
  }
  void spoil() {
    each_sample([](float& there, float) { there = -1; });
  }
  void check(const char* scheme) {
    each_sample([&](float there, float right) {
      if (there != right)
        throw Error(ExitCode::failure, fmt::format("{}: {} arrived instead of {}", scheme, there, right));
    });
  }

  MPI_Comm gather = MPI_COMM_NULL;
  MPI_Comm reduce = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  int count = 0;  ///< elements of each rank
  int pause_us;
  std::vector<float> own, gathered, gradient, sum;
};

/// One scheme in use. It is made anew for each turn, so that no thread of another scheme makes progress for
/// it.
struct Scheme {
  std::function<void()> begin, after_kernel, wait;
};

struct Candidate {
  const char* name;
  Scheme (*make)(Job&);
};
/// All schemes, in the order in which bench_overlap.cpp lists them.
std::span<const Candidate> candidates();

}  // namespace weft::overlap
