#include <cstdio>

#include "base/check.hpp"
#include "ckpt/list.hpp"
#include "ckpt/verify.hpp"
#include "cli/commands.hpp"

namespace weft::cli {
namespace {

void verify(const std::string& dir) {
  const std::vector<std::string> problems = ckpt::verify(dir);
  if (problems.empty()) {
    std::printf("%s: whole\n", dir.c_str());
    return;
  }
  std::string text;
  for (const std::string& problem : problems) text += (text.empty() ? "" : "\n") + problem;
  throw Error(ExitCode::bad_checkpoint, text);
}

}  // namespace

void add_checkpoint(CLI::App& app) {
  CLI::App* command = app.add_subcommand("checkpoint", "Look at checkpoints");
  command->require_subcommand(1);
  auto dir = std::make_shared<std::string>();
  CLI::App* ls = command->add_subcommand("ls", "List the checkpoints of a run");
  ls->add_option("DIR", *dir, "RUN_DIR/checkpoints")->required();
  ls->callback([dir] { std::fputs(ckpt::list(*dir).c_str(), stdout); });
  CLI::App* check = command->add_subcommand(
      "verify", "Read every byte of one checkpoint and hold it against its checksums");
  check->add_option("DIR", *dir, "A checkpoint: .../step-N")->required();
  check->callback([dir] { verify(*dir); });
}

}  // namespace weft::cli
