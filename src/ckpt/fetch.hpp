// Reads any elements of a checkpoint's state vectors from whatever shards hold them, and checks every slab it
// touches. Shards come one after the other: no more than one is known at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ckpt/coverage.hpp"
#include "ckpt/manifest.hpp"
#include "ckpt/shard.hpp"

namespace weft::ckpt {

/// Elements [begin, begin + count) of a state vector of manifest.units[unit].
struct Request {
  Role role = Role::master;
  int unit = 0;
  DType dtype = DType::f32;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::byte* out = nullptr;  ///< where the elements go; when it is null, `put` takes them
  /// Takes `count` elements, the first of which is number `at` of the request. It gets each element once.
  std::function<void(std::int64_t at, std::int64_t count, const std::byte* data)> put;
};

class Fetcher {
 public:
  /// Prepares to read the requests; `manifest` outlives this object.
  Fetcher(const Manifest& manifest, std::vector<Request> requests);

  /// Reads what the shard holds of the requests. It opens the shard only where it holds any, and takes up to
  /// 8 MiB of memory then. Throws Error(bad_checkpoint) that names file, state and unit, or Unreadable.
  void take(const Shard& shard);
  /// Call it after the last shard: it throws Error(bad_checkpoint) unless every element has been read once.
  void finish() const;

 private:
  struct Wanted {
    Request request;
    std::int64_t reach = 0;  ///< where this request, and all before it of the same vector, end
    detail::Intervals seen;
  };
  std::size_t vector_of(Role role, int unit) const;

  const Manifest& manifest_;
  std::vector<Wanted> wanted_;  ///< sorted by state vector, then by first element
  /// For each state vector, the index of its first entry in wanted_; then the index behind the last entry.
  std::vector<std::size_t> first_;
  std::vector<char> held_;  ///< for each state vector, whether the checkpoint has any of it
};

/// Fulfils all requests in one process.
void fetch(const Manifest& manifest, const std::vector<Request>& requests);

/// The element type that a state vector is stored in; f32 when the checkpoint does not hold that vector,
/// which fetch() then reports.
DType dtype_of(const Manifest& manifest, Role role, int unit);

/// Every problem of one shard: missing, truncated, headers damaged, slabs whose checksum does not match.
std::vector<std::string> find_damage(const Manifest& manifest, const Shard& shard, bool direct_io);

}  // namespace weft::ckpt
