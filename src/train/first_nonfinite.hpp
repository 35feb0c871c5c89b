// Finds where in a step NaNs and infinities begin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "exec/program_order.hpp"
#include "exec/tap.hpp"
#include "kernels/nonfinite.hpp"
#include "runtime/session.hpp"

namespace weft::train {

/// Looks at a step's values, and keeps the first that is not finite in the program that one rank would run
/// alone: a parameter or a constant that the step starts from, or else a node's output. The result of a
/// gather that brings only the rows that tokens name is not looked at, because its other rows hold nothing.
/// Neither is what a stage of a pipe receives, because the sender has looked at it. After it has found one,
/// it looks only at what stands before that in the program, which a pipe may run later.
class FirstNonfinite final : public exec::Tap {
 public:
  /// Watches one plan; `plan` and the session outlive this object.
  FirstNonfinite(runtime::Session& session, const plan::Plan& plan)
      : session_(session), plan_(plan), order_(plan.graph, session.stage_places(), session.pipe_rank()) {}

  void start(const exec::Locate& locate) override;
  bool wants(ir::NodeId id) const override;
  void made(ir::NodeId id, const exec::Locate& locate) override;
  /// Collective: describes the first value that was not finite in the run of the plan that has just ended,
  /// over all ranks; of several ranks that have it, the first one's. The text is on rank 0, and empty
  /// elsewhere.
  std::string finish();

 private:
  struct Found {
    /// What the step starts from has section 0, and an index by parameter.
    exec::ProgramPlace place;
    std::string text;
  };
  bool would_be_first(const exec::ProgramPlace& place) const { return !found_ || place < found_->place; }
  void look_at_state(const ir::Storage& storage, const std::byte* data, exec::ProgramPlace& place);
  kernels::NonfiniteCount count(const std::byte* data, DType t, std::int64_t n);

  runtime::Session& session_;
  const plan::Plan& plan_;
  exec::ProgramOrder order_;
  std::optional<Found> found_;
};

}  // namespace weft::train
