// Estimates what a node of a graph takes on a machine; plans are compared by these numbers. They depend on
// the profile and the node alone, so they are equal on all ranks that have the same profile.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/lane.hpp"
#include "ir/graph.hpp"
#include "machine/curves.hpp"
#include "machine/profile.hpp"
#include "ops/cost.hpp"

namespace weft::machine {

/// The ranks that take part in a collective.
struct RankGroup {
  RankGroup(int n) : ranks(n), span(n) {}  // NOLINT(google-explicit-constructor): neighbours
  RankGroup(int n, int from_first_to_last) : ranks(n), span(from_first_to_last) {}
  int ranks;
  int span;  ///< world ranks from the first to the last, which tells how many hosts they reach over
};

/// The two ways on which bytes leave a GPU: to the others of its host, or through a network card.
enum class Link : std::uint8_t { near, far };

class CostModel {
 public:
  explicit CostModel(Profile profile);

  const Profile& profile() const { return profile_; }

  /// Seconds of a compute node on one rank, with nothing beside it; 0 for aliases. A measured signature has
  /// its own time. Otherwise it is max(FLOP / rate, bytes / bandwidth) + launch, times a ratio: that of
  /// measured to estimated time for the measured kernel of the same family that is nearest in log FLOP and
  /// log bytes. Throws std::logic_error for a collective. It makes a string, so ask once for each node, not
  /// for each candidate.
  double kernel_seconds(const ir::Graph& graph, const ir::Node& node) const;
  bool is_measured(const ir::Graph& graph, const ir::Node& node) const;

  /// Seconds of a collective over `peers`, alone on the machine, of which one rank sends `bytes_sent`; 0 for
  /// one rank or no bytes. It is taken from the curve of the operation that is nearest: first by reach
  /// (within a host or between hosts), then by wire type, then by the number of ranks. For another number of
  /// ranks the latency is scaled by the number of peers. Between hosts, a group with fewer ranks a host than
  /// the curve's crosses the hosts' border by as much less: by its own ranks' cards, or by its part of a card
  /// that the groups beside it use at the same time. A reduce_scatter exchanges slices, which cross by
  /// themselves anyway.
  double collective_seconds(ir::Op op, RankGroup peers, double bytes_sent, DType wire = DType::f32) const;
  /// Seconds of a collective that is a node of a graph, or of a message, once both ends have begun it.
  double collective_seconds(const ir::Graph& graph, const ir::Node& node) const;
  /// How many bytes of messages take as long as the node. These are its own bytes; for what a team moves in
  /// its memory, they are as many as the link carries meanwhile.
  double bytes_sent(const ir::Graph& graph, const ir::Node& node) const;

  /// Bytes a second that one rank sends when both lanes are at work.
  double link_bytes_per_s() const { return profile_.sharing.link_bytes_per_s; }
  /// The link that a collective over `peers` goes by. Ranks on processors have one for all, because one
  /// thread of each makes all their collectives.
  Link link_of(RankGroup peers) const;
  Link link_of(const ir::Graph& graph, const ir::Node& node) const;
  /// Speed of a collective while `collectives` are under way on its link, itself included, as a share of its
  /// speed alone: (0, 1]. More than two move as many bytes a second as two.
  double shared_link_speed(int collectives) const;
  /// Whether sums over replicas share no link with the other lanes, and by how much one of each slow each
  /// other down instead.
  std::optional<double> replica_speed() const;
  /// Speed of the lane's collectives while kernels run, as a share of their speed alone: (0, 1].
  double beside_compute_speed(Lane lane) const;
  /// Seconds that the compute lane loses while its rank sends `bytes` on `lane`, because the communication
  /// thread takes core and bandwidth.
  double stolen_compute_seconds(Lane lane, double bytes) const;

 private:
  struct Measured {
    CollectiveCurve from;  ///< the curve without its points
    Curve curve;
  };
  double flops_per_s(const ir::Graph& graph, const ir::Node& node, std::string_view family) const;
  double roofline(double flops_per_s, const ops::Cost& cost) const;
  double preparing_bytes(const ir::Graph& graph, const ir::Node& node) const;
  /// The measured kernel of this family whose work is nearest; null where none was measured.
  const KernelSample* nearest_sample(const std::string& family, const ops::Cost& cost) const;
  const Measured* nearest(ir::Op op, RankGroup peers, DType wire) const;

  Profile profile_;
  std::map<std::string, double, std::less<>> seconds_;  ///< measured kernels, by signature
  /// Indices into profile_.kernels, by family.
  std::map<std::string, std::vector<std::size_t>, std::less<>> families_;
  std::vector<Measured> curves_;
};

DType wire_of(const ir::Graph& graph, const ir::Node& node);

}  // namespace weft::machine
