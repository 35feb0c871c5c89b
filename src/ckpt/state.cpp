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

}  // namespace weft::ckpt
