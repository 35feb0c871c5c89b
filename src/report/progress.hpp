// Shows a run's progress to its user: a bar with the remaining time, rewritten in place on a terminal, and
// plain lines elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "report/metrics.hpp"

namespace weft::report {

struct ProgressOptions {
  enum class Style : std::uint8_t { detect, in_place, lines };
  enum class Bar : std::uint8_t { detect, ascii, blocks };

  std::FILE* out = nullptr;      ///< null shows nothing; ranks other than 0 pass null
  std::int64_t total_steps = 0;  ///< the step at which the run ends
  std::int64_t every = 0;        ///< steps from one plain line to the next; 0: by interval_s
  double interval_s = 10;        ///< the least seconds from one plain line to the next
  double redraw_s = 0.1;         ///< the least seconds between redraws in place
  int width = 0;                 ///< columns; 0 asks the terminal at every draw
  Style style = Style::detect;   ///< `detect`: in place on a terminal that is not "dumb", even if only the
                                 ///< launcher has one
  Bar bar = Bar::detect;         ///< `detect`: Unicode's blocks where the locale is of UTF-8
  std::function<double()> now;   ///< seconds from any origin; empty: the steady clock
};

/// Shows step, loss, tokens/s, time to go, gradient norm and learning rate, and, where a line is rewritten in
/// place and has 60 columns or more, a bar of the steps that are done. On a narrow terminal the last fields
/// are left out. There is no colour, so that NO_COLOR has nothing to switch off. Loss, norm and rate are this
/// step's; tokens/s and ETA are smoothed over the last tens of steps, and the ETA goes by the wall clock, so
/// that validation and checkpoints count; the last step shows what the run took instead. The first and the
/// last step are always shown.
class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress();  ///< calls finish()
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Call it after each training step, also after a resume (the first call may carry any step).
  void step(const StepMetrics& metrics);
  /// Shows a validation's line: loss, bits per byte when known, and duration.
  void validation(const StepMetrics& metrics);
  /// Shows a line of its own (such as a checkpoint's) that stays on the screen above the progress line, as
  /// the warnings of the log do.
  void note(std::string_view line);
  /// Shows the last step if it is not on the screen yet, and ends the line, so that other output starts on a
  /// fresh one. While an exception unwinds the stack it shows nothing.
  void finish();

 private:
  /// An exponential average; the first values are not biased towards 0.
  class Average {
   public:
    explicit Average(double keep) : keep_(keep) {}
    void add(double x) {
      sum_ = keep_ * sum_ + (1 - keep_) * x;
      weight_ = keep_ * weight_ + (1 - keep_);
    }
    double value() const { return weight_ > 0 ? sum_ / weight_ : 0; }

   private:
    double keep_, sum_ = 0, weight_ = 0;
  };

  void update_averages(const StepMetrics& metrics, double now);
  void draw();
  /// The fields that a line may show; those that are not known are empty.
  struct Fields {
    std::string step, loss, rate, time, grad_norm, lr;
  };
  Fields fields() const;
  std::string text(std::size_t columns) const;
  std::string text_with_bar(std::size_t columns) const;

  ProgressOptions options_;
  Average tokens_{0.96}, step_s_{0.96};  ///< averages for one step
  /// The average time from step to step; it follows slowly, so that a validation does not make the time to go
  /// jump.
  Average wall_s_{0.99};
  StepMetrics last_;
  std::int64_t steps_seen_ = 0;
  std::int64_t drawn_step_ = -1;  ///< the step on the screen
  double start_s_ = 0;            ///< when this object was made
  double last_step_s_ = 0;        ///< when step() was called last
  double last_draw_s_ = 0;
};

}  // namespace weft::report
