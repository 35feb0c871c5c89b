#include "ops/storages.hpp"

#include <fmt/core.h>

#include <stdexcept>
#include <string_view>

namespace weft::ops {
namespace {

std::string_view prefix(ir::Role role) {
  switch (role) {
    case ir::Role::parameter: return "param";
    case ir::Role::gradient: return "grad";
    case ir::Role::master:
    case ir::Role::exp_avg:
    case ir::Role::exp_avg_sq: return name_of(role);
    case ir::Role::input:
    case ir::Role::constant:
    case ir::Role::report: break;
  }
  throw std::logic_error(fmt::format("a unit has no storage for the role {}", name_of(role)));
}

}  // namespace

std::string totals_name_of(int round) {
  return round == 0 ? totals_name : fmt::format("{}.{}", totals_name, round);
}

std::string storage_name(ir::Role role, const Unit& unit) {
  return fmt::format("{}.{}", prefix(role), unit.path);
}

}  // namespace weft::ops
