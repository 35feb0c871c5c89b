// main() of every GoogleTest program: starts what the program registered, holds each test to a deadline, and
// makes ranks agree.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "support/runtime.hpp"
#include "support/watchdog.hpp"

namespace weft::test {
namespace {

// A rank that failed gives the others this long to finish the same test before it ends the run.
constexpr unsigned grace_seconds = 10;

std::vector<Runtime>& runtimes() {
  static std::vector<Runtime> list;
  return list;
}

Ranks& ranks() {
  static Ranks instance;
  return instance;
}

std::string full_name(const testing::TestInfo& test) {
  return std::string(test.test_suite_name()) + "." + test.name();
}

/// Arms the watchdog for each test; after it, tells every rank whether any of them failed.
class Deadline : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    watchdog::arm(watchdog::deadline(), ranks().rank, ranks().size, full_name(test).c_str());
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    if (ranks().any_failed != nullptr) {
      const bool failed = test.result()->Failed();
      const std::string what =
          full_name(test) + (failed ? " FAILED here" : " ended here") + " but not on every rank";
      watchdog::arm(failed ? grace_seconds : watchdog::deadline(), ranks().rank, ranks().size, what.c_str());
      if (ranks().any_failed(failed) && !failed)
        ADD_FAILURE() << full_name(test) << " failed on another rank";
    }
    watchdog::disarm();
  }
};

/// The printer of ranks other than 0, which prints failures only.
class FailuresOnly : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override { name_ = full_name(test); }

  // GoogleTest holds its mutex here: asking it for the current test would never return.
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (!part.failed()) return;
    std::fprintf(stderr, "[rank %d] %s\n%s:%d: %s\n", ranks().rank, name_.c_str(),
                 part.file_name() != nullptr ? part.file_name() : "?", part.line_number(), part.message());
  }

  std::string name_;
};

void install_listeners() {
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (ranks().rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly);
  }
  // Ends are reported in the reverse order of this list: the ranks agree before anything is printed.
  listeners.Append(new Deadline);
}

void start_runtimes(int* argc, char*** argv) {
  std::sort(runtimes().begin(), runtimes().end(),
            [](const Runtime& a, const Runtime& b) { return a.order < b.order; });
  watchdog::arm(watchdog::deadline(), 0, 1, "starting MPI and Kokkos");
  for (const Runtime& runtime : runtimes()) runtime.start(argc, argv);
  watchdog::disarm();
}

void stop_runtimes() {
  watchdog::arm(watchdog::deadline(), ranks().rank, ranks().size, "ending Kokkos and MPI");
  for (auto runtime = runtimes().rbegin(); runtime != runtimes().rend(); ++runtime) runtime->stop();
  watchdog::disarm();
}

}  // namespace

bool register_runtime(const Runtime& runtime) {
  runtimes().push_back(runtime);
  return true;
}

bool has_runtime(Runtime::Order order) {
  return std::any_of(runtimes().begin(), runtimes().end(),
                     [order](const Runtime& runtime) { return runtime.order == order; });
}

void set_ranks(const Ranks& value) {
  ranks() = value;
}

}  // namespace weft::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // Weft has threads by the time a death test forks.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  try {
    weft::test::start_runtimes(&argc, &argv);
    weft::test::install_listeners();
    const int failed = RUN_ALL_TESTS();
    weft::test::stop_runtimes();
    return failed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "[  FAILED  ] outside of the tests: %s\n", error.what());
    return 1;
  }
}
