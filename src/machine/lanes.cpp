#include "machine/lanes.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <stdexcept>

namespace weft::machine {
namespace {

constexpr Lane compute = Lane::compute;

class Clock {
 public:
  Clock(const LaneTasks& tasks, const CostModel& costs, double late_seconds)
      : tasks_(tasks), costs_(costs), late_(late_seconds) {
    for (const Lane lane : all_lanes) times_.spans[lane].resize(tasks[lane].size());
  }

  LaneTimes run() {
    while (start_what_is_ready()) advance();
    for (const Lane lane : all_lanes)
      if (!ended(lane))
        throw std::logic_error("the simulated lanes block each other: their waits form a circle");
    times_.end = now_;
    return std::move(times_);
  }

 private:
  const LaneTask& head(Lane lane) const { return tasks_[lane][done_[lane]]; }
  bool ended(Lane lane) const { return done_[lane] == tasks_[lane].size(); }

  /// A lane whose work the next task of `lane` waits for, if there is one.
  std::optional<Lane> blocked_by(Lane lane) const {
    for (const Lane other : all_lanes)
      if (done_[other] < head(lane).after[other]) return other;
    if (lane != compute) return std::nullopt;
    for (const Lane other : all_lanes)
      if (there_at(other) > now_) return other;
    return std::nullopt;
  }

  /// When what the compute lane's next task waits for in another lane arrives. That lane's task must have
  /// ended.
  double there_at(Lane other) const {
    const std::uint32_t after = head(compute).after[other];
    return other == compute || after == 0 ? 0 : times_.spans[other][after - 1].end + late_;
  }

  /// Starts every task that can start. Tasks without a duration end at once, and may let others start.
  /// Returns false when nothing runs or is late any more.
  bool start_what_is_ready() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const Lane lane : all_lanes) {
        if (running_[lane] || ended(lane) || blocked_by(lane)) continue;
        times_.spans[lane][done_[lane]].start = now_;
        left_[lane] = head(lane).seconds;
        running_[lane] = true;
        if (left_[lane] <= 0) finish(lane);
        moved = true;
      }
    }
    return std::any_of(running_.begin(), running_.end(), [](bool r) { return r; }) || late_until() > now_;
  }

  /// When the compute lane can go on, if it waits only for what is late; else 0.
  double late_until() const {
    if (running_[compute] || ended(compute)) return 0;
    double until = 0;
    for (const Lane other : all_lanes) {
      if (done_[other] < head(compute).after[other]) return 0;
      until = std::max(until, there_at(other));
    }
    return until;
  }

  void finish(Lane lane) {
    times_.spans[lane][done_[lane]++].end = now_;
    running_[lane] = false;
  }

  /// Speed of the lane's collective beside those of other lanes, as a share of its speed without them.
  double beside_others(Lane lane) const {
    const std::optional<double> replica = costs_.replica_speed();
    int on_link = 1;
    double speed = 1;
    for (const Lane other : communication_lanes) {
      if (other == lane || !running_[other]) continue;
      if (replica && (lane == Lane::replica || other == Lane::replica)) {
        speed *= *replica;
      } else if (head(lane).link == head(other).link) {
        ++on_link;
      }
    }
    return speed * costs_.shared_link_speed(on_link);
  }

  PerLane<double> speeds() const {
    PerLane<double> speed{};
    double lost = 0;  // what the compute lane loses in a second
    for (const Lane lane : communication_lanes) {
      if (!running_[lane]) continue;
      speed[lane] = running_[compute] ? costs_.beside_compute_speed(lane) : 1;
      speed[lane] *= beside_others(lane);
      lost += costs_.stolen_compute_seconds(lane, head(lane).bytes / head(lane).seconds * speed[lane]);
    }
    constexpr double least = 0.1;  // otherwise a profile that steals all of a core would stop the clock
    speed[compute] = std::max(least, 1 - lost);
    return speed;
  }

  /// Moves the clock to the end of the task that ends first.
  void advance() {
    const auto speed = speeds();
    double dt = std::numeric_limits<double>::infinity();
    for (const Lane lane : all_lanes)
      if (running_[lane]) dt = std::min(dt, left_[lane] / speed[lane]);
    const double until = late_until();
    const bool waits = until > now_ && until < now_ + dt;
    if (waits) dt = until - now_;
    account(dt);
    now_ = waits ? until : now_ + dt;
    for (const Lane lane : all_lanes) {
      if (!running_[lane]) continue;
      const bool ends = left_[lane] / speed[lane] <= dt;
      left_[lane] -= dt * speed[lane];
      if (ends) finish(lane);
    }
  }

  void account(double dt) {
    for (const Lane lane : all_lanes)
      if (running_[lane]) times_.busy[lane] += dt;
    if (running_[compute]) return;
    const auto first_running =
        std::find_if(all_lanes.begin(), all_lanes.end(), [this](Lane lane) { return running_[lane]; });
    const std::optional<Lane> blocks = ended(compute) ? std::nullopt : blocked_by(compute);
    times_.exposed[blocks ? *blocks : *first_running] += dt;
  }

  const LaneTasks& tasks_;
  const CostModel& costs_;
  const double late_;
  PerLane<std::size_t> done_{};
  PerLane<bool> running_{};
  PerLane<double> left_{};
  double now_ = 0;
  LaneTimes times_;
};

}  // namespace

LaneTimes run_lanes(const LaneTasks& tasks, const CostModel& costs, double late_seconds) {
  return Clock(tasks, costs, late_seconds).run();
}

}  // namespace weft::machine
