// When a run ends before run.steps: because its time is up, or because it is asked to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/world.hpp"
#include "deck/deck.hpp"
#include "job/stop_request.hpp"

namespace weft::train {

/// finished: all of run.steps are done. unfinished: the run is to be started again, and goes on then.
/// stopped: the same, but only its user starts it again, and no script.
enum class Outcome : std::uint8_t { finished, unfinished, stopped };

/// What comes before the run could end after one more step, as far as this rank knows.
struct StillToCome {
  /// Rounds of the validation after that step, over the rounds of a training step; nothing without one.
  std::optional<double> validation_rounds;
  double save_s = 0;
};

/// The run's clock, and who asks it to stop. Its seconds are measured, or guessed by what was.
class Ending {
 public:
  /// The clock starts.
  Ending(const Deck& deck, int rank);

  /// What this rank knows of a request to stop (job::StopRequest); the largest of all ranks' counts.
  double request() { return stop_.seen(); }
  /// A step, or a validation, took so many seconds on the slowest rank.
  void step_took(double seconds);
  void validation_took(double seconds);

  /// Seconds until another step, its validation if one is due, and a save would be done, on this rank. Each
  /// may take as long as the longest so far, the step twice. A validation that has not been timed yet is
  /// guessed by its rounds.
  double seconds_to_next_save(const StillToCome& next) const;
  /// Collective: why to end before the next step; empty when nothing asks for it. `request` is the largest of
  /// all ranks'.
  std::string reason(comm::World& world, double request, const StillToCome& next) const;
  /// The reason of a request alone.
  std::string text(double request) const { return stop_.text(request); }
  /// At most `most` seconds, as a rank may let others wait in a collective, and as run.walltime allows where
  /// `needed` more seconds are still to come.
  double patience(double most, double needed) const;

  /// What a run that ends before its last step, for a request (or 0), has come to.
  static Outcome outcome(double request) {
    return job::StopRequest::by_file(request) ? Outcome::stopped : Outcome::unfinished;
  }
  /// Removes the file that asked for the end, or the next start would stop, too.
  void forget_request() const { stop_.remove_file(); }

 private:
  double walltime_, collective_timeout_;  ///< the deck's, in seconds; 0: none
  double start_;
  job::StopRequest stop_;
  double longest_step_ = 0;  ///< on any rank
  std::optional<double> longest_validation_;
};

}  // namespace weft::train
