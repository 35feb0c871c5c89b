// Builds the Llama forward as a graph of the logical, unsharded program.
#pragma once

#include <string>

#include "base/mesh.hpp"
#include "ir/graph.hpp"
#include "model/spec.hpp"

namespace weft::model {

/// A microbatch over all ranks that share it, and how many of them a step accumulates.
struct Batch {
  std::int64_t rows = 1;  ///< sequences in one round, over all ranks
  std::int64_t seq = 1;   ///< tokens in a sequence
  int rounds = 1;
  /// How many ranks share each sequence. Each has two sections of it, the ones that are as far from its begin
  /// as from its end, which stand in the graph as if they were sequences: rows are 2 * context times as many.
  int context = 1;

  std::int64_t sections() const { return context == 1 ? 1 : 2 * context; }
};

/// A graph's forward: the value that is differentiated, and the values that results are read from.
struct Forward {
  ir::Graph graph;
  std::vector<ir::ValueId> totals;  ///< for each round f64[2]: sum of -log p, and count of the valid targets
};

/// The names of the storages that the host fills or reads; NAME.R is for round R.
std::string tokens_name(int round);                          ///< i32 [rows, seq], or sections
std::string targets_name(int round);                         ///< i32 [rows, seq], negative: not counted
std::string positions_name(int round);                       ///< i32 [rows, seq]
inline constexpr const char* rope_name = "rope.table";       ///< f32 [seq, head_dim / 2, 2], cos and sin
inline constexpr const char* logits_name = "report.logits";  ///< [rows, seq, vocab]

/// Builds forward and loss of `batch.rounds` rounds. Parameters are read from the units' f32 masters.
Forward build_loss(const Spec& spec, const Batch& batch, const Mesh& mesh, const std::string& name);
/// Builds the losses of all rounds, whose totals over all ranks go to the storages
/// ops::totals_name_of(round).
ir::Graph build_evaluation(const Spec& spec, const Batch& batch, const Mesh& mesh);
/// Builds the forward from tokens to logits, which go to the storage logits_name.
ir::Graph build_logits(const Spec& spec, const Batch& batch, const Mesh& mesh);

}  // namespace weft::model
