// The machine profile says in numbers what a machine can do: the rates of one rank, measured kernels,
// measured collectives, and what communication and compute take from each other. CostModel answers questions
// about it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/choices.hpp"
#include "base/dtype.hpp"
#include "ir/op.hpp"

namespace weft::machine {

/// What one rank reaches in its kernels, with all ranks of its host at work.
struct Compute {
  int threads = 1;          ///< host threads of a rank, for readers; 0 where the device is a GPU
  double matmul_f32 = 0;    ///< FLOP/s of large products
  double matmul_bf16 = 0;   ///< FLOP/s of large products
  double attention = 0;     ///< FLOP/s of attention, of which the causal half counts
  double bytes_per_s = 0;   ///< memory bandwidth, reads and writes together
  double launch_s = 0;      ///< seconds that a kernel takes however small it is
  double memory_bytes = 0;  ///< memory that a rank can have; 0: not known
  double peak_f32 = 0;      ///< FLOP/s by the data sheet, which MFU is a share of; 0: not known
  double peak_bf16 = 0;     ///< likewise
  /// FLOP/s of large products in Float8 of rows with a scale each, and of rows that have one scale; 0: the
  /// device has none, and they are made in bf16, as on hosts.
  double matmul_f8 = 0, matmul_f8_tensorwise = 0;
  double matmul_f8_of(Float8Scales scales) const {
    return scales == Float8Scales::rowwise ? matmul_f8 : matmul_f8_tensorwise;
  }
  bool on_gpu() const { return threads == 0; }
  bool operator==(const Compute&) const = default;
};

/// The time of one kernel on one rank.
struct KernelSample {
  std::string signature;  ///< the kernel's key (signature.hpp)
  double seconds = 0;
  double flops = 0;  ///< what ops::cost says
  double bytes = 0;  ///< what ops::cost says
  bool operator==(const KernelSample&) const = default;
};

struct CollectivePoint {
  double bytes = 0;  ///< bytes that one rank sends
  double seconds = 0;
  bool operator==(const CollectivePoint&) const = default;
};

/// One collective at growing sizes, alone on the machine, made by all `ranks` at once. Seconds are the
/// slowest rank's.
struct CollectiveCurve {
  ir::Op op = ir::Op::all_gather;  ///< all_gather, reduce_scatter or all_reduce
  DType wire = DType::f32;         ///< type of the elements that are sent
  int ranks = 2;
  int nodes = 1;                        ///< hosts that the ranks were spread over
  std::vector<CollectivePoint> points;  ///< ascending in bytes; at least one
  bool operator==(const CollectiveCurve&) const = default;
};

/// What sums over replicas take from the other lanes, and these from them. They often go another way: state
/// is cut inside a host, and replicas are on different hosts.
struct ReplicaSharing {
  double beside_lanes = 1;  ///< speed of a sum over replicas, and of a collective over shards, while both run
  /// Speed of a sum over replicas while kernels run, as a share of its speed alone.
  double beside_compute = 1;
  double stolen_s_per_byte = 0;
  bool operator==(const ReplicaSharing&) const = default;
};

/// What the lanes take from each other.
struct Sharing {
  double link_bytes_per_s = 0;  ///< bytes a second that a rank sends, gather and reduce lanes together
  /// Speed of a collective while one of the other lane runs, as a share of its speed alone.
  double both_lanes = 1;
  double beside_compute = 1;     ///< speed of a collective while kernels run, as a share of its speed alone
  double stolen_s_per_byte = 0;  ///< seconds that the compute lane loses for each byte that its rank sends
  std::optional<ReplicaSharing> replica{};  ///< none: sums over replicas are like other collectives
  bool operator==(const Sharing&) const = default;
};

struct Profile {
  std::string name;  ///< name in reports: "host default", "2 ranks on vm-17, 1 thread each"
  int ranks_per_node = 1;
  Compute compute;
  Sharing sharing;
  std::vector<CollectiveCurve> collectives;
  std::vector<KernelSample> kernels;  ///< ascending by signature, each of them once
  /// Which of its library's algorithms a product is faster by than by the library's first choice, on GPUs
  /// (kernels::ProductAlgorithms).
  std::map<std::string, std::string> algorithms;
  bool operator==(const Profile&) const = default;
};

enum class DefaultProfile : std::uint8_t { host, h100 };
/// The profile that is assumed where nothing was measured; default_profiles.cpp has the sources of its
/// numbers.
Profile default_profile(DefaultProfile which);

/// The machines that plans can be made for anywhere, by name: data sheets, and the share of them that
/// well-tuned codes reach. shipped_machines.cpp has the sources.
std::vector<std::string> shipped_machine_names();
/// The profile of such a machine; nothing for another name.
std::optional<Profile> shipped_machine(std::string_view name);

/// A curve of latency + bytes / rate, at points between which a straight line in logarithms fits it to a few
/// per cent.
CollectiveCurve assumed_curve(ir::Op op, DType wire, int ranks, int nodes, double latency,
                              double bytes_per_s);

/// The profile as TOML; parse_profile reads back an equal one.
std::string print_profile(const Profile& profile);
/// Reads a profile. Throws Error(bad_input) "SOURCE:LINE: PROBLEM (WHY)" for the first mistake: an unknown or
/// missing key, a wrong type, a number out of range, points or signatures that do not ascend.
Profile parse_profile(std::string_view text, const std::string& source);
/// The hash of all that print_profile writes.
std::uint64_t hash_of(const Profile& profile);

}  // namespace weft::machine
