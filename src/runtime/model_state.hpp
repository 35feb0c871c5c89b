// The model's persistent state on this rank: fp32 masters and Adam's moments, in whatever layout the plan
// gave them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ckpt/load.hpp"
#include "ckpt/state.hpp"
#include "runtime/session.hpp"

namespace weft::runtime {

class ModelState {
 public:
  /// Finds the state in the session's memory. `plan` is reserved in the session, and lives as long as this
  /// object; its storages tell the layout. A forward plan has no moments. `model` are the units of the whole
  /// model, where the plan has those of some stages only; empty: the plan has them all.
  ModelState(Session& session, const plan::Plan& plan, const std::vector<Unit>& model = {});

  /// The units that the slices below are cut from: one for each parameter of the whole model.
  const std::vector<Unit>& units() const { return stored_units_; }
  /// Draws the initial parameters by (seed, module path, element): N(0, std), but norms are 1, and wo and w2
  /// have std / sqrt(2 layers), where `layers` counts the whole model's. Each rank draws what it holds.
  /// Moments become 0.
  void initialize(std::uint64_t seed, double std, std::int64_t layers);
  /// Sets a whole parameter from host values, on every rank that holds some of it. Matrices are [out, in],
  /// here and in parameter(). Call publish() after the last one.
  void set_parameter(const std::string& path, std::span<const float> values);
  /// The values of a parameter that this rank holds whole; tests on one rank use it.
  std::vector<float> parameter(const std::string& path) const;
  /// Collective: brings the copies that the forward reads (bf16, or gathered) up to date with the masters.
  void publish();

  /// This rank's own 1/W of every vector that no other stage saves, by parameter, on the device.
  std::vector<ckpt::StateSlice> own_slices() const;
  std::int64_t own_bytes() const;  ///< bytes of own_slices()
  /// The own slices for the host to read: the state itself where the device is the host, else copies of it.
  /// They are valid until the next step.
  struct Snapshot {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<ckpt::StateSlice> slices;
  };
  Snapshot snapshot();
  /// Fills the state: calls `fill` once, with fp32 slices for everything that this rank holds. It fills those
  /// that have memory, which are the state itself, and gives the elements of the others to `put`, in parts of
  /// any size. Call publish() afterwards.
  using Fill = std::function<void(std::span<const ckpt::StateSlice> slices, const ckpt::Put& put)>;
  void restore(const Fill& fill);
  /// Collective: a hash of masters and moments that is equal for every layout and every number of ranks. It
  /// is the sum mod 2^64 of a hash of each element by its parameter's path, its role and its place there.
  std::uint64_t hash();

 private:
  struct Vector {
    ckpt::Role role;
    DType dtype;  ///< on the device; bf16 for a forward plan's parameters, which have no master
    std::size_t unit;
    std::byte* device;   ///< what this rank holds
    std::int64_t begin;  ///< its first element in the unit, not counting padding
    std::int64_t count;
  };
  /// Copies fp32 from the host to elements [at, at + count) of what the device holds.
  void copy_to_device(const Vector& vector, std::int64_t at, std::int64_t count, const std::byte* host);
  /// The first element that this rank has of the whole parameter.
  std::int64_t first_of(const Parameter& p) const;
  /// The elements [begin, end) of a unit that this rank saves and hashes: its 1/W, of all W ranks that have
  /// it.
  std::pair<std::int64_t, std::int64_t> own_range(const Unit& unit) const;
  /// The elements of a cut unit that this rank holds: the own ranges of all ranks that hold the same.
  std::pair<std::int64_t, std::int64_t> shard_range(const Unit& unit) const;
  /// Adds the parts of parameters that stand in elements [begin, end) of a vector's unit.
  void add_slices(const Vector& vector, std::int64_t begin, std::int64_t end,
                  std::vector<ckpt::StateSlice>& slices) const;

  Session& session_;
  const plan::Plan& plan_;
  std::vector<Unit> units_;         ///< this rank's
  std::vector<Unit> stored_units_;  ///< see units()
  std::vector<Vector> vectors_;
};

}  // namespace weft::runtime
