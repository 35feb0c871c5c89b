// The ways in which a number of ranks can share a deck's work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/mesh.hpp"
#include "base/pipeline_kind.hpp"
#include "deck/deck.hpp"

namespace weft::advise {

/// What of a deck says how ranks share the work. It changes no loss but in its last digits.
struct Arrangement {
  std::vector<MeshAxis> mesh;  ///< as parallel.mesh, every axis with its size
  ShardMode mode = ShardMode::fsdp;
  PipelineKind schedule = PipelineKind::one_f_one_b;
  std::int64_t chunks = 1;
  std::int64_t batch = 1;
  Recompute recompute = Recompute::none;
  bool operator==(const Arrangement&) const = default;

  int size(std::string_view axis) const;  ///< 1 where the mesh does not have the axis
};

/// The deck with the arrangement in it.
Deck arranged(const Deck& deck, const Arrangement& arrangement);
/// The arrangement that a deck has on `world` ranks. Throws Error(bad_input) where it has none.
Arrangement arrangement_of(const Deck& deck, int world);
/// The arrangement as --set takes it: "parallel.mesh={ pipe = 2, data = 4 }", "schedule.recompute=full", ...
std::vector<std::string> settings(const Arrangement& arrangement);

/// For tables: "pipe 2 x data 4", "interleaved x 2" (empty without a pipe), and all in a few words.
std::string mesh_text(const Arrangement& arrangement);
std::string schedule_text(const Arrangement& arrangement);
std::string short_text(const Arrangement& arrangement);

/// Which keys stay as the deck has them.
struct Kept {
  bool mode = false, schedule = false, chunks = false, batch = false, recompute = false;
};
/// The keys among them that the deck gives.
Kept keys_given(const Deck& deck);
/// Reads a list of such keys. Throws Error(bad_input) for any other key.
Kept kept_keys(const std::vector<std::string>& keys);

/// The arrangements of `world` ranks that the deck's sizes allow, without those that others are better than
/// anyway: groups of the tensor axis stay within a host of `per_host` ranks; context cuts sequences into
/// sections of 256 tokens or more, unless there are more ranks than sequences; a pipe idles half as long as
/// it works at most; and zero2 stands for zero1 and ddp, which send as much, hide less and take more memory.
/// The pipe comes first in the mesh, then replica, data, context and tensor.
/// Those that differ only in batch and recomputation follow each other, with rising batches and then from
/// none to full.
std::vector<Arrangement> arrangements(const Deck& deck, int world, int per_host, const Kept& kept);

}  // namespace weft::advise
