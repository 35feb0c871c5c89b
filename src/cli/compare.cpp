// The command `weft compare`.
#include <cstdio>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "compare/compare_runs.hpp"

namespace weft::cli {

void add_compare(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "compare", "Find the first step and module where two runs part; exit status 1 when they do");
  struct Runs {
    std::string a, b;
  };
  auto runs = std::make_shared<Runs>();
  command->add_option("RUN_A", runs->a, "A run's directory (run.dir)")->required();
  command->add_option("RUN_B", runs->b, "The other one's")->required();
  command->callback([runs, &context] {
    const compare::RunComparison comparison = compare::compare_runs(runs->a, runs->b);
    std::fputs(comparison.text.c_str(), stdout);
    if (!comparison.equal) context.exit_code = static_cast<int>(ExitCode::failure);
  });
}

}  // namespace weft::cli
