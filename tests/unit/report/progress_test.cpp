#include "report/progress.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.hpp"

namespace weft::report {
namespace {

using Style = ProgressOptions::Style;

/// Has a Progress that writes into a pipe, and reads a clock of the test's.
class ProgressTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::pipe(ends_.data()), 0);
    out_ = ::fdopen(ends_[1], "w");
  }
  void TearDown() override {
    if (out_) std::fclose(out_);
    ::close(ends_[0]);
  }

  ProgressOptions options(std::int64_t total, Style style) {
    ProgressOptions o;
    o.out = out_;
    o.total_steps = total;
    o.style = style;
    o.bar = ProgressOptions::Bar::ascii;
    o.now = [this] { return clock_; };
    return o;
  }

  void step(Progress& progress, std::int64_t step, double seconds, double loss = 4.0) {
    clock_ += seconds;
    StepMetrics m;
    m.step = step;
    m.loss = loss;
    m.tokens = 1000;
    m.step_s = seconds;
    m.grad_norm = 1.5;
    m.lr = 3e-4;
    progress.step(m);
  }

  std::string written() {
    std::fclose(out_);
    out_ = nullptr;
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t n; (n = ::read(ends_[0], buffer.data(), buffer.size())) > 0;)
      text.append(buffer.data(), static_cast<std::size_t>(n));
    return text;
  }

  std::array<int, 2> ends_{};
  std::FILE* out_ = nullptr;
  double clock_ = 100;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The lines that a terminal shows after `text`: \r goes to column 0, and \x1b[K clears to the line's end.
std::vector<std::string> screen_of(const std::string& text) {
  std::vector<std::string> screen(1);
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "\x1b[K") == 0) {
      screen.back().resize(column);
      i += 2;
    } else if (text[i] == '\r') {
      column = 0;
    } else if (text[i] == '\n') {
      screen.emplace_back();
      column = 0;
    } else {
      if (column == screen.back().size()) screen.back() += ' ';
      screen.back()[column++] = text[i];
    }
  }
  return screen;
}

TEST_F(ProgressTest, APipeGetsPlainLinesEachFewSeconds) {
  {
    auto o = options(100, Style::detect);
    o.interval_s = 10;
    Progress progress(o);
    for (std::int64_t s = 1; s <= 100; ++s) step(progress, s, 1.0);
  }
  const auto text = written();
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  const auto lines = lines_of(text);
  ASSERT_EQ(lines.size(), 11u);  // steps 1, 11, 21, ..., 91, 100
  EXPECT_EQ(lines[0], "step   1/100  loss 4.0000  1.00k tokens/s  ETA 1m 39s  grad_norm 1.5  lr 3.00e-04");
  EXPECT_EQ(lines[1], "step  11/100  loss 4.0000  1.00k tokens/s  ETA 1m 29s  grad_norm 1.5  lr 3.00e-04");
  EXPECT_EQ(lines[10], "step 100/100  loss 4.0000  1.00k tokens/s  took 1m 40s  grad_norm 1.5  lr 3.00e-04");
}

TEST_F(ProgressTest, PlainLinesEachNSteps) {
  {
    auto o = options(25, Style::lines);
    o.every = 10;
    Progress progress(o);
    for (std::int64_t s = 1; s <= 25; ++s) step(progress, s, 100.0);
  }
  const auto lines = lines_of(written());
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].substr(0, 10), "step  1/25");
  EXPECT_EQ(lines[1].substr(0, 10), "step 10/25");
  EXPECT_EQ(lines[2].substr(0, 10), "step 20/25");
  EXPECT_EQ(lines[3].substr(0, 10), "step 25/25");
}

TEST_F(ProgressTest, ARunThatStopsEarlyShowsItsLastStep) {
  {
    Progress progress(options(1000, Style::lines));
    for (std::int64_t s = 1; s <= 5; ++s) step(progress, s, 0.01);
    progress.finish();
    progress.finish();
  }
  const auto lines = lines_of(written());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].substr(0, 11), "step    5/1");
}

TEST_F(ProgressTest, ATerminalKeepsOneLine) {
  {
    auto o = options(50, Style::in_place);
    o.width = 120;
    Progress progress(o);
    for (std::int64_t s = 1; s <= 50; ++s) step(progress, s, 1.0, s == 1 ? 123456.0 : 2.0);
  }
  const auto screen = screen_of(written());
  ASSERT_EQ(screen.size(), 2u);
  EXPECT_EQ(screen[0],
            "step 50/50 [#############################]  took 50s  loss 2.0000  1.00k tokens/s  "
            "grad_norm 1.5  lr 3.00e-04");
  EXPECT_EQ(screen[1], "");
}

TEST_F(ProgressTest, FastStepsDoNotFloodTheTerminal) {
  {
    auto o = options(10'000, Style::in_place);
    o.width = 100;
    Progress progress(o);
    for (std::int64_t s = 1; s <= 1000; ++s) step(progress, s, 0.001);
  }
  const auto text = written();
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 13);
  EXPECT_NE(text.rfind("step  1000/10000 [##"), std::string::npos);
}

TEST_F(ProgressTest, NotesStandAboveTheProgressLine) {
  {
    auto o = options(3, Style::in_place);
    o.width = 100;
    Progress progress(o);
    progress.note("weft: 2 ranks");
    step(progress, 1, 1.0);
    StepMetrics valid;
    valid.kind = MetricsKind::valid;
    valid.step = 1;
    valid.loss = 3.5;
    valid.bits_per_byte = 1.25;
    valid.step_s = 0.25;
    progress.validation(valid);
    step(progress, 2, 1.0);
    progress.note("saved");
    step(progress, 3, 1.0);
  }
  const auto screen = screen_of(written());
  ASSERT_EQ(screen.size(), 5u);
  EXPECT_EQ(screen[0], "weft: 2 ranks");
  EXPECT_EQ(screen[1], "valid at step 1: loss 3.5000  bits/byte 1.2500  (0.2s)");
  EXPECT_EQ(screen[2], "saved");
  EXPECT_EQ(screen[3].substr(0, 8), "step 3/3");
}

TEST_F(ProgressTest, WarningsStandAboveTheProgressLineToo) {
  testing::internal::CaptureStderr();
  {
    auto o = options(3, Style::in_place);
    o.out = stderr;
    o.width = 100;
    Progress progress(o);
    log::info("the first line");
    step(progress, 1, 1.0);
    log::warn("a warning");
    log::info("some information");
    step(progress, 2, 1.0);
    log::error("an error");  // it may be the last that a run says, so nothing is shown below it
    step(progress, 3, 1.0);
  }
  log::warn("the last line");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("\r\x1b[Kweft: warning: rank 0: a warning\n\rstep 1/3 ["), std::string::npos) << text;
  EXPECT_NE(text.find("weft: error: rank 0: an error\n\rstep 3/3 ["), std::string::npos) << text;
  const auto screen = screen_of(text);
  ASSERT_EQ(screen.size(), 8u) << text;
  EXPECT_EQ(screen[0], "the first line");
  EXPECT_EQ(screen[1], "weft: warning: rank 0: a warning");
  EXPECT_EQ(screen[2], "some information");
  EXPECT_EQ(screen[3].substr(0, 8), "step 2/3");
  EXPECT_EQ(screen[4], "weft: error: rank 0: an error");
  EXPECT_EQ(screen[5].substr(0, 8), "step 3/3");
  EXPECT_EQ(screen[6], "weft: warning: rank 0: the last line");
}

/// The message of the exception is written before or after the display ends, and is to stand last.
TEST_F(ProgressTest, ARunThatFailsShowsNoStepAtItsEnd) {
  for (const Style style : {Style::in_place, Style::lines}) {
    const auto fails = [&] {
      Progress progress(options(10, style));
      step(progress, 1, 1.0);
      step(progress, 2, 0.01);
      throw std::runtime_error("the run fails");
    };
    EXPECT_THROW(fails(), std::runtime_error);
    const auto lines = lines_of(written());
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find("step  1/10"), std::string::npos) << lines[0];
    EXPECT_EQ(lines[0].find("step  2/10"), std::string::npos) << lines[0];
    ::close(ends_[0]);
    SetUp();
  }
}

TEST_F(ProgressTest, NarrowTerminalsLoseTheLastFieldsFirst) {
  const std::string plain = "step 1/3  loss 4.0000  1.00k tokens/s  ETA 2s  grad_norm 1.5  lr 3.00e-04";
  const std::string bar =
      "step 1/3 [######--------------]  ETA 2s  loss 4.0000  1.00k tokens/s  grad_norm 1.5";
  const std::vector<std::pair<int, std::string>> shown{{81, bar.substr(0, 68)},   {60, plain.substr(0, 45)},
                                                       {46, plain.substr(0, 45)}, {45, plain.substr(0, 37)},
                                                       {38, plain.substr(0, 37)}, {37, plain.substr(0, 21)},
                                                       {22, plain.substr(0, 21)}, {21, plain.substr(0, 20)},
                                                       {10, plain.substr(0, 9)},  {1, ""}};
  for (const auto& [width, text] : shown) {
    {
      auto o = options(3, Style::in_place);
      o.width = width;
      Progress progress(o);
      step(progress, 1, 1.0);
    }
    EXPECT_EQ(screen_of(written())[0], text) << "width " << width;
    ::close(ends_[0]);
    SetUp();
  }
}

/// The bar goes from nothing to full, in Unicode's eighths of a column.
TEST_F(ProgressTest, TheBarFillsWithTheSteps) {
  {
    auto o = options(80, Style::in_place);
    o.width = 61;  // a bar of 15 columns
    o.bar = ProgressOptions::Bar::blocks;
    Progress progress(o);
    for (const std::int64_t s : {1, 8, 40, 80}) step(progress, s, 1.0);
  }
  const auto text = written();
  for (const char* bar : {"1/80 [▏              ]  ETA", " 8/80 [█▌             ]  ETA",
                          "40/80 [███████▌       ]  ETA", "80/80 [███████████████]  took"})
    EXPECT_NE(text.find(bar), std::string::npos) << bar << " is not in\n" << text;
}

/// mpirun gives its ranks a pipe; jobs/launch.sh has seen the terminal behind it.
TEST_F(ProgressTest, ThroughALauncherThereIsABarWhereItSawATerminal) {
  for (const auto& [term, columns, in_place] :
       {std::tuple("xterm", "100", true), std::tuple("dumb", "100", false),
        std::tuple("xterm", "0", false)}) {
    ::setenv("TERM", term, 1);
    ::setenv("WEFT_TERMINAL_COLUMNS", columns, 1);
    {
      Progress progress(options(10, Style::detect));
      step(progress, 1, 1.0);
    }
    const auto text = written();
    EXPECT_EQ(text.find("\rstep  1/10 [##----------------------]  ETA 9s") == 0, in_place) << text;
    EXPECT_EQ(text.find('\x1b') != std::string::npos, in_place) << text;
    ::unsetenv("WEFT_TERMINAL_COLUMNS");
    ::close(ends_[0]);
    SetUp();
  }
}

TEST_F(ProgressTest, EtaFollowsTheWallClockAndIsSmoothed) {
  {
    auto o = options(1100, Style::lines);
    o.every = 1000;
    o.interval_s = 1e9;
    Progress progress(o);
    for (std::int64_t s = 1; s <= 999; ++s) {
      if (s % 10 == 0) clock_ += 10;  // a validation that takes as long as ten steps
      step(progress, s, 1.0);
    }
    step(progress, 1000, 1.0);
  }
  const auto lines = lines_of(written());
  const auto at = lines[1].find("ETA ");
  // 100 steps of 2 s on average are 3m 20s. The average varies by five percent.
  EXPECT_EQ(lines[1].substr(at, 6), "ETA 3m") << lines[1];
  EXPECT_NE(lines[1].find("1.00k tokens/s"), std::string::npos)
      << "validation does not slow the steps: " << lines[1];
}

TEST_F(ProgressTest, SetupDoesNotCountForTheEta) {
  {
    Progress progress(options(101, Style::lines));
    clock_ += 3600;
    step(progress, 1, 1.0);
  }
  EXPECT_NE(written().find("ETA 1m 40s"), std::string::npos);
}

TEST_F(ProgressTest, OtherRanksAreSilent) {
  auto o = options(3, Style::lines);
  o.out = nullptr;
  Progress progress(o);
  step(progress, 1, 1.0);
  progress.note("x");
  progress.finish();
  EXPECT_EQ(written(), "");
}

}  // namespace
}  // namespace weft::report
