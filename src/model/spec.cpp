#include "model/spec.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace weft::model {
namespace {

class UnitBuilder {
 public:
  explicit UnitBuilder(std::string path) { unit_.path = std::move(path); }
  UnitBuilder& add(const char* name, Shape shape) {
    const std::int64_t n = element_count(shape);
    unit_.parameters.push_back({unit_.path + "." + name, std::move(shape), unit_.elements});
    unit_.elements += n;
    return *this;
  }
  /// The last parameter can be cut into this many parts at most.
  UnitBuilder& in_parts(std::int64_t most) {
    unit_.parameters.back().most_parts = most;
    return *this;
  }
  UnitBuilder& add_in_first(const char* name, Shape in_out) {
    add(name, std::move(in_out));
    unit_.parameters.back().in_first = true;
    return *this;
  }
  Unit build() { return std::move(unit_); }

 private:
  Unit unit_;
};

}  // namespace

std::vector<Unit> units(const Spec& s) {
  std::vector<Unit> list;
  list.push_back(UnitBuilder("embed").add("table", {s.vocab, s.dim}).build());
  for (std::int64_t i = 0; i < s.layers; ++i) {
    list.push_back(UnitBuilder(fmt::format("layers.{}.attn", i))
                       .add("norm", {s.dim})
                       .in_parts(1)
                       .add("wq", {s.dim, s.dim})
                       .add("wk", {s.kv_dim(), s.dim})
                       .in_parts(s.kv_heads)
                       .add("wv", {s.kv_dim(), s.dim})
                       .in_parts(s.kv_heads)
                       .add_in_first("wo", {s.dim, s.dim})
                       .build());
    list.push_back(UnitBuilder(fmt::format("layers.{}.ffn", i))
                       .add("norm", {s.dim})
                       .in_parts(1)
                       .add("w1", {s.ffn, s.dim})
                       .add("w3", {s.ffn, s.dim})
                       .add_in_first("w2", {s.ffn, s.dim})
                       .build());
  }
  UnitBuilder head("head");
  head.add("norm", {s.dim}).in_parts(1);
  if (!s.tie_embeddings) head.add("weight", {s.vocab, s.dim});
  list.push_back(head.build());
  for (Unit& unit : list) {
    unit.float8 = std::find(s.float8.begin(), s.float8.end(), unit.path) != s.float8.end();
    unit.f32_norms = s.f32_norms;
  }
  return list;
}

std::string key(const Spec& s) {
  return fmt::format(
      "dim = {}\nlayers = {}\nheads = {}\nkv_heads = {}\nffn = {}\nvocab = {}\ntie_embeddings = {}\n", s.dim,
      s.layers, s.heads, s.kv_heads, s.ffn, s.vocab, s.tie_embeddings);
}

}  // namespace weft::model
