// Two ways to lay out buffers in one arena; offsets.hpp chooses among their results.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plan/plan.hpp"

namespace weft::plan::detail {

/// How sweep() chooses a gap.
struct SweepRule {
  enum class Gap : std::uint8_t { tightest, outermost } gap = Gap::tightest;
  /// Buffers held for fewer places than this go to the arena's far end, below `cap`; all others to its start.
  std::int64_t short_below = 0;
  std::int64_t cap = 0;
};

/// Places the buffers in program order, each in a gap between those held at that time. Takes a few
/// milliseconds for 30,000 buffers. Returns the arena's size.
std::int64_t sweep(std::vector<Buffer>& buffers, const SweepRule& rule);

class Timetable;

/// Tries orders of the same buffers. Its tables stay from one try to the next: to allocate them took longer
/// than the try.
class Greedy {
 public:
  explicit Greedy(const std::vector<Buffer>& buffers);
  ~Greedy();
  Greedy(const Greedy&) = delete;
  Greedy& operator=(const Greedy&) = delete;

  struct Placed {
    std::int64_t size;  ///< the arena's
    std::optional<std::size_t>
        beyond;  ///< the buffer that would not end below the limit; those after it are not placed
  };
  /// Places the buffers in `order`, each as low as the buffers placed before it and held at the same time
  /// allow, and stops at the first that ends at `limit` or above.
  Placed place(std::vector<Buffer>& buffers, const std::vector<std::size_t>& order, std::int64_t limit);

 private:
  std::unique_ptr<Timetable> table_;
};

}  // namespace weft::plan::detail
