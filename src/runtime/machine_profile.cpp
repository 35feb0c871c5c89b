#include "runtime/machine_profile.hpp"

#include <string>
#include <utility>

#include "comm/agree.hpp"
#include "compile/machine_profile.hpp"

namespace weft::runtime {

machine::Profile machine_profile(const Deck& deck, comm::World& world) {
  if (!compile::has_measured_profile(deck)) return compile::machine_profile(deck);  // there is no file
  std::string text;
  comm::agree(world, [&] {
    if (world.rank() != 0) return;
    text = compile::profile_text(deck);
    compile::machine_profile(deck, text);  // this only throws its errors
  });
  return compile::machine_profile(deck, world.broadcast(std::move(text), 0));
}

}  // namespace weft::runtime
