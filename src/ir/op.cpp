#include "ir/op.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

#include "base/check.hpp"

namespace weft::ir {
namespace {

constexpr std::array<std::string_view, op_count> op_names{"state",
                                                          "view",
                                                          "rank_slice",
                                                          "join",
                                                          "embedding",
                                                          "rms_norm",
                                                          "add_rms_norm",
                                                          "matmul",
                                                          "rope",
                                                          "rope_split",
                                                          "attention",
                                                          "merge_sections",
                                                          "swiglu",
                                                          "add",
                                                          "cross_entropy_part",
                                                          "cross_entropy",
                                                          "linear_cross_entropy",
                                                          "embedding_grad",
                                                          "rms_norm_grad",
                                                          "matmul_dgrad",
                                                          "matmul_wgrad",
                                                          "rope_join",
                                                          "attention_grad",
                                                          "split_sections",
                                                          "swiglu_grad",
                                                          "cross_entropy_grad",
                                                          "linear_cross_entropy_grad",
                                                          "amax",
                                                          "float8_scales",
                                                          "quantize_unit",
                                                          "quantize",
                                                          "matmul_f8",
                                                          "matmul_dgrad_f8",
                                                          "zeros",
                                                          "accumulate",
                                                          "sum_squares",
                                                          "reduce_totals",
                                                          "clip_scale",
                                                          "adamw",
                                                          "all_gather",
                                                          "reduce_scatter",
                                                          "all_reduce",
                                                          "send",
                                                          "recv"};

static_assert(!op_names.back().empty(),
              "an Op has no name (ir/op.hpp names more); add it here, in their order");

constexpr std::array<std::string_view, static_cast<std::size_t>(Attr::vocab) + 1> attr_names{
    "any_order", "axis", "beta1",   "beta2",    "copies",  "e5m2",       "eps",    "head_dim",
    "heads",     "hold", "inverse", "kv_heads", "largest", "max_norm",   "native", "offset",
    "peer",      "row",  "rows",    "slot",     "team",    "tensorwise", "used",   "vocab"};
static_assert(!attr_names.back().empty(),
              "an Attr has no name (ir/op.hpp names more); add it here, in their order");

}  // namespace

std::string_view name_of(Op op) {
  return op_names[static_cast<std::size_t>(op)];
}

Op op_from(std::string_view name) {
  const auto it = std::find(op_names.begin(), op_names.end(), name);
  WEFT_VALIDATE(it != op_names.end(), "unknown operation '{}' in the graph text", name);
  return static_cast<Op>(it - op_names.begin());
}

std::string_view name_of(Attr attr) {
  return attr_names[static_cast<std::size_t>(attr)];
}

Attr attr_from(std::string_view name) {
  const auto it = std::find(attr_names.begin(), attr_names.end(), name);
  WEFT_VALIDATE(it != attr_names.end(), "unknown attribute '{}' in the graph text", name);
  return static_cast<Attr>(it - attr_names.begin());
}

Attributes::Attributes(std::initializer_list<std::pair<Attr, double>> list) {
  for (const auto& [attr, value] : list) set(attr, value);
}

bool Attributes::has(Attr attr) const {
  return std::any_of(list_.begin(), list_.end(), [&](const auto& entry) { return entry.first == attr; });
}

double Attributes::real(Attr attr) const {
  for (const auto& [key, value] : list_)
    if (key == attr) return value;
  throw std::logic_error("the node has no attribute " + std::string(name_of(attr)));
}

std::int64_t Attributes::integer(Attr attr) const {
  const double value = real(attr);
  if (!(std::abs(value) <= 0x1p53))
    throw std::logic_error("the node's attribute " + std::string(name_of(attr)) + " is no integer");
  return static_cast<std::int64_t>(value);
}

void Attributes::set(Attr attr, double value) {
  const auto it = std::lower_bound(list_.begin(), list_.end(), attr,
                                   [](const auto& entry, Attr key) { return entry.first < key; });
  if (it != list_.end() && it->first == attr) {
    it->second = value;
  } else {
    list_.insert(it, {attr, value});
  }
}

}  // namespace weft::ir
