// Decides when a run ends before run.steps: because its time is up, or because it is asked to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/world.hpp"
#include "deck/deck.hpp"
#include "job/stop_request.hpp"

namespace weft::train {

/// How a run ends. `finished`: it has done all of run.steps. `unfinished`: start it again, and it goes on.
/// `stopped`: it can go on, too, but its user has to start it, and no script does.
enum class Outcome : std::uint8_t { finished, unfinished, stopped };

/// What comes before the run could end after one more step, as far as this rank knows.
struct StillToCome {
  /// The rounds of the validation after that step, divided by those of a training step; nothing without a
  /// validation.
  std::optional<double> validation_rounds;
  double save_s = 0;  ///< the end of the save that is under way, and the save of that step
};

/// Keeps the run's clock, and learns of requests to stop. The clock starts with the process, because a
/// launcher's limit has the time in it in which many ranks meet. What is still to come is judged by what has
/// been measured.
class Ending {
 public:
  Ending(const Deck& deck, int rank);

  /// The request to stop that this rank knows of (job::StopRequest). The largest of all ranks' is the one
  /// that counts.
  double request() { return stop_.seen(); }
  /// Tells how many seconds a step, or a validation, took on the slowest rank.
  void step_took(double seconds);
  void validation_took(double seconds);

  /// Seconds until another step, its validation if one is due, and a save would be done, on this rank. Each
  /// is expected to take as long as the longest so far, and the step twice as long. The time of a validation
  /// that has not been measured yet is guessed by its rounds.
  double seconds_to_next_save(const StillToCome& next) const;
  /// Collective: why the run must end before the next step; empty when nothing asks for it. `request` is the
  /// largest of all ranks'. All ranks get the same answer.
  std::string reason(comm::World& world, double request, const StillToCome& next) const;
  /// What reason() says of a request.
  std::string text(double request) const { return stop_.text(request); }
  /// How many seconds a rank may wait: at most `most`, not so long that others would count it as hanging in a
  /// collective, and only what run.walltime leaves when `needed` more seconds are still to come.
  double patience(double most, double needed) const;

  /// How a run ends that does so before its last step. `request` is what asked for it; 0: nothing did.
  static Outcome outcome(double request) {
    return job::StopRequest::by_file(request) ? Outcome::stopped : Outcome::unfinished;
  }
  /// Removes the file that asked for the end, or the next start would stop, too.
  void forget_request() const { stop_.remove_file(); }

 private:
  double walltime_, collective_timeout_;  ///< the deck's, in seconds; 0: none
  double start_;
  job::StopRequest stop_;
  double longest_step_ = 0;  ///< the longest on any rank
  std::optional<double> longest_validation_;
};

}  // namespace weft::train
