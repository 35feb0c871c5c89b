// Finds where NaNs and infinities begin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "exec/tap.hpp"
#include "kernels/nonfinite.hpp"
#include "runtime/session.hpp"

namespace weft::train {

/// Looks at a step's values in program order, and keeps the first that is not finite: a parameter or a
/// constant that the step starts from, or else a node's output. Of a gather that brings only rows that tokens
/// name the rest is nobody's, so its result is left out. After it has found one, it costs nothing.
class FirstNonfinite final : public exec::Tap {
 public:
  /// `plan` and the session outlive this.
  FirstNonfinite(runtime::Session& session, const plan::Plan& plan) : session_(session), plan_(plan) {}

  void start(const exec::Locate& locate) override;
  bool wants(ir::NodeId id) const override;
  void made(ir::NodeId id, const exec::Locate& locate) override;
  /// Collective: of the run that has just ended, the first of all ranks', in words; of several ranks that
  /// have it, the first one's. On rank 0; elsewhere empty.
  std::string finish();

 private:
  struct Found {
    std::int64_t place = 0;  ///< in program order, what the step starts from first; the same on all ranks
    std::string text;
  };
  void look_at_state(const ir::Storage& storage, const std::byte* data, std::int64_t& place);
  kernels::Nonfinite count(const std::byte* data, DType t, std::int64_t n);

  runtime::Session& session_;
  const plan::Plan& plan_;
  std::int64_t state_places_ = 0;
  std::optional<Found> found_;
};

}  // namespace weft::train
