// What a machine can do, as numbers: rates of one rank, measured kernels, measured collectives, and what
// communication and compute take from each other. Plain data; CostModel answers questions about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "ir/op.hpp"

namespace weft::machine {

/// What one rank reaches in its kernels, with all ranks of its node at work.
struct Compute {
  int threads = 1;          ///< host threads a rank; 0 where the device is a GPU. For the reader
  double matmul_f32 = 0;    ///< FLOP/s of large products
  double matmul_bf16 = 0;   ///< FLOP/s
  double attention = 0;     ///< FLOP/s, the causal half counted
  double bytes_per_s = 0;   ///< of memory, reads and writes together
  double launch_s = 0;      ///< seconds that a kernel takes however small it is
  double memory_bytes = 0;  ///< that a rank can have; 0: not known
  bool operator==(const Compute&) const = default;
};

/// One kernel's time on one rank.
struct KernelSample {
  std::string signature;  ///< signature.hpp
  double seconds = 0;
  double flops = 0;  ///< of ops::cost
  double bytes = 0;  ///< of ops::cost
  bool operator==(const KernelSample&) const = default;
};

struct CollectivePoint {
  double bytes = 0;  ///< that one rank sends
  double seconds = 0;
  bool operator==(const CollectivePoint&) const = default;
};

/// One collective at growing sizes, alone on the machine, all `ranks` at once; seconds of the slowest.
struct CollectiveCurve {
  ir::Op op = ir::Op::all_gather;  ///< all_gather, reduce_scatter or all_reduce
  DType wire = DType::f32;         ///< of the elements sent
  int ranks = 2;
  int nodes = 1;                        ///< that the ranks were spread over
  std::vector<CollectivePoint> points;  ///< ascending in bytes; at least one
  bool operator==(const CollectiveCurve&) const = default;
};

/// What sums over replicas take from the other lanes, and these from them. Their way is often another one:
/// state is cut inside a host, and replicas are on different hosts.
struct ReplicaSharing {
  double beside_lanes = 1;    ///< speed of each of a sum over replicas and a collective over shards at once
  double beside_compute = 1;  ///< as in Sharing, of the sums
  double stolen_s_per_byte = 0;
  bool operator==(const ReplicaSharing&) const = default;
};

/// What the lanes take from each other.
struct Sharing {
  double link_bytes_per_s = 0;  ///< a rank's bytes sent, gather and reduce lanes together
  double both_lanes = 1;      ///< speed of a collective while one of the other lane runs, of its speed alone
  double beside_compute = 1;  ///< speed of a collective while kernels run, of its speed alone
  double stolen_s_per_byte = 0;  ///< seconds that the compute lane loses for each byte that its rank sends
  std::optional<ReplicaSharing> replica{};  ///< none: sums over replicas are as the other collectives
  bool operator==(const Sharing&) const = default;
};

struct Profile {
  std::string name;  ///< for reports: "host default", "2 ranks on vm-17, 1 thread each"
  int ranks_per_node = 1;
  Compute compute;
  Sharing sharing;
  std::vector<CollectiveCurve> collectives;
  std::vector<KernelSample> kernels;  ///< ascending by signature, each once
  bool operator==(const Profile&) const = default;
};

enum class DefaultProfile : std::uint8_t { host, h100 };
/// What is assumed where nothing was measured; default_profiles.cpp has the sources of the numbers.
Profile default_profile(DefaultProfile which);

/// The profile as TOML; parse_profile reads back an equal one.
std::string print_profile(const Profile& profile);
/// Throws Error(bad_input) "SOURCE:LINE: PROBLEM (WHY)" for the first mistake: an unknown or missing key, a
/// wrong type, a number out of range, points or signatures that do not ascend.
Profile parse_profile(std::string_view text, const std::string& source);
/// Of all that print_profile writes.
std::uint64_t hash_of(const Profile& profile);

}  // namespace weft::machine
