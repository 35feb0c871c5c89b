#include "train/ending.hpp"

#include <algorithm>
#include <span>

#include "base/clock.hpp"
#include "job/process_start.hpp"

namespace weft::train {

Ending::Ending(const Deck& deck, int rank)
    : walltime_(deck.run.walltime),
      collective_timeout_(deck.run.collective_timeout),
      start_(seconds_now() - job::seconds_since_process_start()),
      stop_(deck.run.dir, rank) {}

void Ending::step_took(double seconds) {
  longest_step_ = std::max(longest_step_, seconds);
}

void Ending::validation_took(double seconds) {
  longest_validation_ = std::max(longest_validation_.value_or(0), seconds);
}

double Ending::seconds_to_next_save(const StillToCome& next) const {
  double seconds = 2 * longest_step_ + next.save_s;
  if (next.validation_rounds)
    seconds += longest_validation_.value_or(longest_step_ * *next.validation_rounds);
  return seconds;
}

std::string Ending::reason(comm::World& world, double request, const StillToCome& next) const {
  if (request > 0) return text(request);
  if (walltime_ <= 0) return {};
  double until = seconds_now() - start_ + seconds_to_next_save(next);
  world.all_reduce_max(std::span(&until, 1));
  return until > walltime_ ? "run.walltime is near" : "";
}

double Ending::patience(double most, double needed) const {
  double seconds = most;
  if (collective_timeout_ > 0) seconds = std::min(seconds, collective_timeout_ / 2);
  if (walltime_ > 0) seconds = std::min(seconds, walltime_ - (seconds_now() - start_ + needed));
  return seconds;
}

}  // namespace weft::train
