#include "pipe/pipeline_schedule.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "pipe/zbv.hpp"

namespace weft::pipe {
namespace {

/// Appends the actions of one rank.
class Rank {
 public:
  Rank(const Sizes& sizes, int rank) : sizes_(sizes), rank_(rank) {}

  std::vector<Action> gpipe() {
    for (int m = 0; m < sizes_.microbatches; ++m) add(Work::forward, m);
    for (int m = 0; m < sizes_.microbatches; ++m) add(Work::backward, m);
    return std::move(actions_);
  }

  std::vector<Action> one_f_one_b() {
    const int ahead = forwards_ahead();
    for (int m = 0; m < ahead; ++m) add(Work::forward, m);
    for (int m = 0; m < sizes_.microbatches; ++m) {
      if (m + ahead < sizes_.microbatches) add(Work::forward, m + ahead);
      add(Work::backward, m);
    }
    return std::move(actions_);
  }

  /// Rank r makes a weight gradient r backwards after its input gradient. The last rank, which is the first
  /// to have no more forwards, so keeps as many for the end as it would else wait.
  std::vector<Action> zb_h1() {
    const int ahead = forwards_ahead();
    for (int m = 0; m < ahead; ++m) add(Work::forward, m);
    for (int m = 0; m < sizes_.microbatches; ++m) {
      if (m + ahead < sizes_.microbatches) add(Work::forward, m + ahead);
      add(Work::input_grad, m);
      if (m >= rank_) add(Work::weight_grad, m - rank_);
    }
    for (int m = std::max(0, sizes_.microbatches - rank_); m < sizes_.microbatches; ++m)
      add(Work::weight_grad, m);
    return std::move(actions_);
  }

  /// A group of microbatches passes one chunk after the other.
  std::vector<Action> interleaved() {
    const int all = sizes_.microbatches * sizes_.chunks, group = group_size();
    const auto at = [&](Work work, int i) {
      const int chunk = i % (group * sizes_.chunks) / group;
      add(work, i / (group * sizes_.chunks) * group + i % group,
          work == Work::forward ? chunk : sizes_.chunks - 1 - chunk);
    };
    const int ahead = std::min(all, 2 * (sizes_.ranks - 1 - rank_) + (sizes_.chunks - 1) * group);
    for (int i = 0; i < ahead; ++i) at(Work::forward, i);
    for (int i = 0; i < all; ++i) {
      if (i + ahead < all) at(Work::forward, i + ahead);
      at(Work::backward, i);
    }
    return std::move(actions_);
  }

 private:
  void add(Work work, int microbatch, int chunk = 0) { actions_.push_back({work, microbatch, chunk}); }
  /// How many forwards this rank makes before its first backward reaches it.
  int forwards_ahead() const { return std::min(sizes_.microbatches, sizes_.ranks - 1 - rank_); }
  /// All groups are equal, because ragged ones idle much or wait in circles, and at least as large as the
  /// pipe. So it is the smallest divisor of the microbatches that is no smaller than the ranks; without one,
  /// all microbatches are one group.
  int group_size() const {
    for (int n = sizes_.ranks; n < sizes_.microbatches; ++n)
      if (sizes_.microbatches % n == 0) return n;
    return sizes_.microbatches;
  }

  const Sizes& sizes_;
  int rank_;
  std::vector<Action> actions_;
};

std::vector<Action> actions_of(PipelineKind kind, const Sizes& sizes, int rank) {
  switch (kind) {
    case PipelineKind::gpipe: return Rank(sizes, rank).gpipe();
    case PipelineKind::one_f_one_b: return Rank(sizes, rank).one_f_one_b();
    case PipelineKind::interleaved: return Rank(sizes, rank).interleaved();
    case PipelineKind::zb_h1: return Rank(sizes, rank).zb_h1();
    case PipelineKind::zbv: break;  // made for all ranks together
  }
  return {};
}

}  // namespace

PipelineSchedule make_pipeline_schedule(PipelineKind kind, const Sizes& sizes) {
  WEFT_REQUIRE(serves_chunks(kind, sizes.chunks), "the schedule {} does not serve {} chunks a rank",
               name_of(kind), sizes.chunks);
  PipelineSchedule schedule{kind, sizes, {}};
  if (kind == PipelineKind::zbv) {
    schedule.actions = zbv_actions(sizes);
    return schedule;
  }
  for (int rank = 0; rank < sizes.ranks; ++rank) schedule.actions.push_back(actions_of(kind, sizes, rank));
  return schedule;
}

}  // namespace weft::pipe
