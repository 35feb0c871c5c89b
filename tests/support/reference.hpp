// What one rank computes alone, which the runs of all ranks are compared with: rank 0 computes it once, and
// the others get it from there.
#pragma once

#include <cstring>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "comm/world.hpp"
#include "support/curve.hpp"
#include "support/mpi_environment.hpp"
#include "support/shared_deck.hpp"

namespace weft::test {

namespace detail {

template <class T>
void append(std::string& bytes, const std::vector<T>& values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <class T>
void take(const char*& bytes, std::vector<T>& values, std::size_t count) {
  values.resize(count);
  std::memcpy(values.data(), bytes, count * sizeof(T));
  bytes += count * sizeof(T);
}

/// All numbers of a curve have eight bytes, and as many stand for each step.
inline std::string bytes_of(const Curve& curve) {
  std::string bytes;
  append(bytes, curve.losses);
  append(bytes, curve.norms);
  append(bytes, curve.tokens);
  append(bytes, std::vector<std::uint64_t>{curve.hash});
  return bytes;
}

inline Curve curve_of(const std::string& bytes) {
  const std::size_t steps = (bytes.size() / 8 - 1) / 3;
  const char* at = bytes.data();
  Curve curve;
  take(at, curve.losses, steps);
  take(at, curve.norms, steps);
  take(at, curve.tokens, steps);
  std::vector<std::uint64_t> hash;
  take(at, hash, 1);
  curve.hash = hash[0];
  return curve;
}

}  // namespace detail

/// Collective: every rank returns the curve that `compute` returned on rank 0, and throws when it threw
/// there.
template <class Compute>
Curve from_rank_zero(Compute compute) {
  std::string curve, error;
  if (world().rank() == 0) {
    try {
      curve = detail::bytes_of(compute());
    } catch (const std::exception& e) {
      error = std::string("rank 0, alone: ") + e.what();
    }
  }
  error = world().broadcast(error, 0);
  if (!error.empty()) throw std::runtime_error(error);
  return detail::curve_of(world().broadcast(curve, 0));
}

/// Collective: the curve of the small deck with keys changed, trained by one rank alone. Tests of a program
/// that ask for the same one share it.
inline const Curve& reference(const std::vector<std::string>& sets, int steps) {
  static std::map<std::pair<std::vector<std::string>, int>, Curve> made;
  const auto found = made.find({sets, steps});
  if (found != made.end()) return found->second;
  const Curve curve = from_rank_zero([&] {
    const auto self = comm::make_self_world();
    train::Trainer trainer(shared_deck(*self, sets), *self);
    return train_steps(trainer, steps);
  });
  return made.emplace(std::pair(sets, steps), curve).first->second;
}

}  // namespace weft::test
