// The command `weft study`.
#include "study/study.hpp"

#include <cstdio>
#include <filesystem>

#include "base/check.hpp"
#include "cli/commands.hpp"

namespace weft::cli {
namespace {

struct StudyArguments {
  std::string file;
  std::string cell;
  bool again = false;
};

void study(const StudyArguments& arguments, Context& context) {
  const study::Study study = study::read_study(arguments.file);
  const study::Options options{arguments.file, std::filesystem::read_symlink("/proc/self/exe").string(),
                               arguments.again};
  study::Progress progress;
  if (!arguments.cell.empty()) {
    progress = make_cell(study, arguments.cell, options);
  } else {
    progress = make(study, options, [](const std::string& line) {
      std::printf("%s\n", line.c_str());
      std::fflush(stdout);
    });
  }
  if (progress.missing > 0) context.exit_code = static_cast<int>(ExitCode::unfinished);
  if (progress.failed > 0) context.exit_code = static_cast<int>(ExitCode::failure);
}

}  // namespace

void add_study(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "study",
      "Run and simulate a deck on many numbers of ranks and with many settings: tables, plots, a page");
  auto arguments = std::make_shared<StudyArguments>();
  command->add_option("STUDY", arguments->file, "The study (TOML): docs/studies.md")->required();
  command->add_option("--cell", arguments->cell, "Run only the cell of this name, here; jobs do that");
  command->add_flag("--again", arguments->again, "Make figures that are there once more");
  command->callback([arguments, &context] { study(*arguments, context); });
}

}  // namespace weft::cli
