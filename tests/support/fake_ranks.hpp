// Ranks that are threads of this process, and train together on fake channels (comm/host/fake.hpp).
#pragma once

#include <thread>
#include <vector>

#include "comm/host/fake.hpp"
#include "support/curve.hpp"

namespace weft::test {

/// The curve of each rank. Kokkos runs the ranks' kernels one after another; the collectives' delays overlap
/// them. Fake channels move host memory, so it is for builds whose device is the host.
inline std::vector<Curve> train_on_fakes(const Deck& deck, const comm::FakeOptions& options, int steps) {
  auto worlds = comm::make_fake_worlds(options);
  std::vector<Curve> curves(worlds.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < worlds.size(); ++rank)
    threads.emplace_back([&, rank] {
      train::Trainer trainer(deck, *worlds[rank]);
      curves[rank] = train_steps(trainer, steps);
    });
  for (std::thread& thread : threads) thread.join();
  return curves;
}

}  // namespace weft::test
