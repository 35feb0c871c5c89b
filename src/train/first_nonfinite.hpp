// Finds where in a step NaNs and infinities begin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "exec/tap.hpp"
#include "kernels/nonfinite.hpp"
#include "runtime/session.hpp"

namespace weft::train {

/// Looks at a step's values in program order, and keeps the first that is not finite: a parameter or a
/// constant that the step starts from, or else a node's output. The result of a gather that brings only the
/// rows that tokens name is not looked at, because its other rows hold nothing. After it has found one, it
/// costs nothing.
class FirstNonfinite final : public exec::Tap {
 public:
  /// Watches one plan; `plan` and the session outlive this object.
  FirstNonfinite(runtime::Session& session, const plan::Plan& plan) : session_(session), plan_(plan) {}

  void start(const exec::Locate& locate) override;
  bool wants(ir::NodeId id) const override;
  void made(ir::NodeId id, const exec::Locate& locate) override;
  /// Collective: describes the first value that was not finite in the run of the plan that has just ended,
  /// over all ranks; of several ranks that have it, the first one's. The text is on rank 0, and empty
  /// elsewhere.
  std::string finish();

 private:
  struct Found {
    /// The value's place in program order, in which what the step starts from comes first; the same on all
    /// ranks.
    std::int64_t place = 0;
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
