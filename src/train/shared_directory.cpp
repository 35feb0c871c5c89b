#include "train/shared_directory.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "train/agree.hpp"

namespace weft::train {
namespace {

/// In which no other rank may take this one for hanging.
double patience_s(const Deck& deck) {
  constexpr double most = 10;
  return deck.run.collective_timeout > 0 ? std::min(most, deck.run.collective_timeout / 2) : most;
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

bool check_shared_directory(comm::World& world, const Deck& deck, const std::string& mark) {
  const std::string expected = world.broadcast(mark, 0);
  if (expected.empty()) return false;
  const std::string& dir = deck.run.dir;
  const double patience = patience_s(deck);
  agree(world, [&] {
    const double start = seconds_now();
    bool found = false;
    while (!(found = content(dir + "/lock") == expected) && seconds_now() - start < patience)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    WEFT_VALIDATE(
        found,
        "{} on {} is not the run directory of rank 0 (its file lock is another one, or missing); choose a "
        "run.dir that all hosts share, by its whole path",
        std::filesystem::absolute(dir).lexically_normal().string(), world.host());
  });
  return true;
}

}  // namespace weft::train
