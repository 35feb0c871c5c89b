// Appends nodes to a graph. Types come from the shape rules; phase and round come from the builder's current
// place.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace weft::ops {

/// A value's name without the suffix of its round (Builder::suffix): "q#1" gives "q".
inline std::string stem(const std::string& name) {
  return name.substr(0, name.find('#'));
}

class Builder {
 public:
  explicit Builder(ir::Graph& graph) : graph_(graph) {}

  ir::Graph& graph() { return graph_; }
  void at(ir::Phase phase, int round, int chunk = 0) {
    phase_ = phase;
    round_ = round;
    chunk_ = chunk;
  }
  ir::Phase phase() const { return phase_; }
  int round() const { return round_; }

  /// Emits an operation that has a shape rule, with a name for each output. `module` is the node's module
  /// path.
  std::vector<ir::ValueId> emit(ir::Op op, std::string_view module, std::vector<ir::ValueId> inputs,
                                std::vector<std::string> names, ir::Attributes attributes = {});
  /// Emits an operation that has a shape rule and one output.
  ir::ValueId emit_one(ir::Op op, std::string_view module, std::vector<ir::ValueId> inputs, std::string name,
                       ir::Attributes attributes = {});
  /// Emits zeros of this type.
  ir::ValueId zeros(std::string_view module, ir::Type type, std::string name);
  /// Emits the sending of a value over the mesh's pipe to the stage at place `peer`, and the receiving of one
  /// of this type from there. The message belongs to the module that makes the value.
  void send(std::string_view module, ir::ValueId x, int peer, Lane lane);
  ir::ValueId recv(std::string_view module, ir::Type type, std::string name, int peer, Lane lane);
  /// An axis of the mesh, and the lane of what is sent over it.
  struct Over {
    int axis;
    Lane lane;
  };
  /// Emits a collective of one value over an axis of the mesh. `type` is the result's.
  ir::ValueId over_axis(ir::Op op, Over over, std::string_view module, ir::ValueId x, ir::Type type,
                        std::string name, ir::Attributes attributes = {});
  /// Emits, in place, an all-reduce over those neighbours on the tensor axis that have copies of a unit
  /// (Unit::copies).
  ir::ValueId sum_of_copies(ir::ValueId x, std::string name);
  /// Emits the content of a storage, with the storage's type and placement.
  ir::ValueId state(ir::StorageId storage);
  /// Emits a view of parameter `index` of the unit that `whole` holds.
  ir::ValueId view(ir::ValueId whole, std::size_t index, std::string name);
  /// Emits the unit that is made of the values of its parameters, which cover it in order. It has the element
  /// type and placement of the first.
  ir::ValueId join(ir::UnitId unit, std::vector<ir::ValueId> parts, std::string name);

  /// The suffix that tells a round's values from those of other rounds: "" in round 0, then "#1", "#2", ...
  std::string suffix() const;

 private:
  ir::NodeId append(ir::Op op, std::string_view module, std::vector<ir::ValueId> inputs,
                    std::vector<ir::ValueId> outputs, ir::Attributes attributes, Lane lane = Lane::compute);
  ir::Attributes to_peer(int peer) const;

  ir::Graph& graph_;
  ir::Phase phase_ = ir::Phase::forward;
  int round_ = 0;
  int chunk_ = 0;
};

}  // namespace weft::ops
