// The graph holds one whole training step, as SSA values and nodes in program order. Persistent state is
// named storage. A value that stands in a storage names it; a new version of the storage is a new value with
// the same home.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/ids.hpp"
#include "base/lane.hpp"
#include "base/mesh.hpp"
#include "base/unit.hpp"
#include "ir/name_index.hpp"
#include "ir/op.hpp"
#include "ir/operands.hpp"

namespace weft::ir {

using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;
using StorageId = Id<struct StorageTag>;
using UnitId = Id<struct UnitTag>;

enum class Phase : std::uint8_t { forward, backward, update };
std::string_view name_of(Phase phase);

/// How a value lies over one axis of the mesh.
struct Placement {
  enum class Kind : std::uint8_t { replicate, shard, partial } kind = Kind::replicate;
  std::int8_t dim = 0;  ///< the dimension that a shard is cut along
  bool operator==(const Placement&) const = default;
};
inline constexpr Placement replicate{};
inline constexpr Placement partial{Placement::Kind::partial, 0};
constexpr Placement shard(int dim) {
  return {Placement::Kind::shard, static_cast<std::int8_t>(dim)};
}

using Placements = InlineVector<Placement, 5>;

struct Type {
  DType dtype = DType::f32;
  Shape shape;  ///< the global shape, over all ranks of the mesh
  bool operator==(const Type&) const = default;
};

struct Value {
  std::string name;  ///< unique, and stable from pass to pass: "layers.0.attn.q", "layers.0.attn.q.grad"
  Type type;
  Placements placement;  ///< a placement for each axis; empty: replicated over all
  UnitId unit;           ///< set for flat unit vectors, which are padded to the mesh
  StorageId home;        ///< set when the value stands in a storage
  NodeId producer;
};

/// What a storage is for; the memory table and the checkpoint depend on it.
enum class Role : std::uint8_t { parameter, master, exp_avg, exp_avg_sq, gradient, input, constant, report };
std::string_view name_of(Role role);

/// Persistent memory of a rank that lives from the first step to the last.
struct Storage {
  std::string name;  ///< "master.layers.0.attn"
  Role role = Role::parameter;
  Type type;
  UnitId unit;
  Placements placement;
};

struct Node {
  Op op = Op::state;
  std::vector<ValueId> inputs, outputs;
  Attributes attributes;
  Phase phase = Phase::forward;
  Lane lane = Lane::compute;
  int round = 0;       ///< accumulation round (microbatch of this rank); update nodes have the last one
  int chunk = 0;       ///< which of this rank's stages of a pipe it belongs to; update nodes have the first
  std::string module;  ///< module path, for traces and module-level reports

  /// These find operands by name (operands.hpp).
  ValueId in(In operand) const { return inputs[operand.at]; }
  ValueId& in(In operand) { return inputs[operand.at]; }
  ValueId out(Out operand) const { return outputs[operand.at]; }
  ValueId& out(Out operand) { return outputs[operand.at]; }
  bool has(In operand) const { return inputs.size() > operand.at; }
  bool has(Out operand) const { return outputs.size() > operand.at; }
};

/// The operand of one member of a collective. A collective may have several members that run as one: member i
/// of n has output i and inputs i, i + n, ...
inline ValueId member_input(const Node& collective, std::size_t member,
                            In operand = operand::collective::vector) {
  return collective.inputs[operand.at * collective.outputs.size() + member];
}
/// The value that a send or a recv moves.
inline ValueId moved_value(const Node& message) {
  return message.op == Op::send ? message.in(operand::send::x) : message.out(operand::recv::x);
}
/// Whether the members of a reduce-scatter are added to what was summed before.
inline bool adds_to_sum(const Node& collective) {
  return collective.inputs.size() > collective.outputs.size();
}

/// The module that an output belongs to: that of its node, except for the sum of add_rms_norm, which is the
/// result of the module before.
inline std::string module_of(const Node& node, const Value& output) {
  if (node.op != Op::add_rms_norm || output.name.starts_with(node.module + ".")) return node.module;
  const std::string name = output.name.substr(0, output.name.find(".again"));
  return name.substr(0, name.rfind('.'));
}

class Graph {
 public:
  Graph() = default;
  Graph(std::string name, Mesh mesh, std::vector<Unit> units);

  const std::string& name() const { return name_; }
  const Mesh& mesh() const { return mesh_; }
  const std::vector<Unit>& units() const { return units_; }
  const Unit& unit(UnitId id) const { return units_[id.index()]; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return nodes_[id.index()]; }
  const std::vector<Value>& values() const { return values_; }
  const Value& value(ValueId id) const { return values_[id.index()]; }
  Value& value(ValueId id) { return values_[id.index()]; }
  const std::vector<Storage>& storages() const { return storages_; }
  const Storage& storage(StorageId id) const { return storages_[id.index()]; }
  Storage& storage(StorageId id) { return storages_[id.index()]; }
  StorageId find_storage(std::string_view name) const;  ///< invalid when there is none
  ValueId find_value(std::string_view name) const;      ///< invalid when there is none

  StorageId add_storage(Storage storage);
  /// Adds a value that no node makes yet. A taken name gets the suffix "~2", "~3", ... in order of addition.
  ValueId add_value(Value value);
  /// Appends a node; its outputs must be values without a producer.
  NodeId add_node(Node node);
  /// A graph with the same header, storages and values, but without nodes: what a pass starts from.
  Graph without_nodes() const;

  /// How many elements one rank holds of the value: the global extents divided by the sizes of the axes that
  /// it is cut over; units count with their padding.
  std::int64_t local_elements(ValueId id) const;
  std::int64_t local_elements(const Storage& storage) const;
  std::int64_t local_bytes(ValueId id) const {
    return local_elements(id) * static_cast<std::int64_t>(size_of(value(id).type.dtype));
  }
  std::int64_t local_bytes(const Storage& s) const {
    return local_elements(s) * static_cast<std::int64_t>(size_of(s.type.dtype));
  }
  /// The value whose bytes a view or rank_slice names; for any other value, the value itself.
  ValueId alias_root(ValueId id) const;
  int rounds() const;  ///< accumulation rounds (microbatches of this rank) that its nodes are of
  /// The extents of a value on one rank. Not for units.
  Shape local_shape(ValueId id) const;

 private:
  std::int64_t local_elements(const Type&, const Placements&, UnitId) const;

  std::string name_;
  Mesh mesh_;
  std::vector<Unit> units_;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<Storage> storages_;
  NameIndex value_names_, storage_names_;
  /// By the value that took a name first: the first suffix that may be free.
  std::map<ValueId, int> copies_;
};

}  // namespace weft::ir
