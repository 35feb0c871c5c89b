#include "ckpt/state.hpp"

#include "base/check.hpp"

namespace weft::ckpt {

std::string_view name_of(Role role) {
  switch (role) {
    case Role::master: return "master";
    case Role::exp_avg: return "exp_avg";
    case Role::exp_avg_sq: return "exp_avg_sq";
  }
  return "?";
}

Role role_from(std::string_view name) {
  for (Role role : all_roles) {
    if (name == name_of(role)) return role;
  }
  throw Error(ExitCode::bad_checkpoint, fmt::format("unknown state '{}' in a checkpoint", name));
}

std::vector<Unit> stored_units(const std::vector<Unit>& units) {
  std::vector<Unit> stored;
  for (const Unit& unit : units)
    for (const Parameter& p : unit.parameters) {
      Unit& own = stored.emplace_back();
      own.path = p.path;
      own.parameters = {{p.path, p.shape, 0, p.in_first}};
      own.elements = element_count(p.shape);
    }
  return stored;
}

}  // namespace weft::ckpt
