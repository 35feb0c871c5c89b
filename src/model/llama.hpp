// The Llama forward as a graph of the logical, unsharded program.
#pragma once

#include <string>

#include "base/mesh.hpp"
#include "ir/graph.hpp"
#include "model/spec.hpp"

namespace weft::model {

/// A microbatch over all data-parallel ranks, and how many of them one step accumulates.
struct Batch {
  std::int64_t rows = 1;  ///< sequences in one round, over all ranks
  std::int64_t seq = 1;   ///< tokens a sequence
  int rounds = 1;
};

/// The value that a graph is differentiated from, and where results are read.
struct Forward {
  ir::Graph graph;
  std::vector<ir::ValueId> totals;  ///< a round: f64[2], sum of -log p and count of the valid targets
};

/// Names of the storages that the host fills or reads; NAME.R for round R.
std::string tokens_name(int round);                          ///< i32 [rows, seq]
std::string targets_name(int round);                         ///< i32 [rows, seq], negative: not counted
std::string positions_name(int round);                       ///< i32 [rows, seq]
inline constexpr const char* rope_name = "rope.table";       ///< f32 [seq, head_dim / 2, 2], cos and sin
inline constexpr const char* logits_name = "report.logits";  ///< [rows, seq, vocab]

/// Forward and loss of `batch.rounds` rounds; parameters are read from the units' f32 masters.
Forward build_loss(const Spec& spec, const Batch& batch, const Mesh& mesh, const std::string& name);
/// build_loss, one round, with the totals of all ranks in the storage ops::totals_name.
ir::Graph build_evaluation(const Spec& spec, const Batch& batch, const Mesh& mesh);
/// Tokens to logits in the storage logits_name.
ir::Graph build_logits(const Spec& spec, const Batch& batch, const Mesh& mesh);

}  // namespace weft::model
