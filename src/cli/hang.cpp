// The command `weft hang`: says who was missing when a run hung, and which rank diverged first.
#include <cstdio>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "io/named_path.hpp"
#include "watch/diagnose.hpp"
#include "watch/watchdog.hpp"

namespace weft::cli {
namespace {

void tell(const std::string& run_dir) {
  WEFT_VALIDATE(io::is_there(run_dir), "there is no {}; give a run's directory", run_dir);
  const std::string dir = watch::newest_records(run_dir);
  const std::vector<watch::RankRecords> records = watch::read_records(dir);
  WEFT_VALIDATE(!records.empty(), "{}: no rank left records", dir);
  const watch::Diagnosis diagnosis = watch::diagnose(records, watch::read_hosts(dir));
  std::fputs(fmt::format("{}: records of {} of {} ranks\n{}", dir, records.size(), diagnosis.ranks,
                         watch::text_of(diagnosis))
                 .c_str(),
             stdout);
}

}  // namespace

void add_hang(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("hang", "Say who was missing when a run hung, and which rank diverged first");
  auto run_dir = std::make_shared<std::string>();
  command->add_option("RUN_DIR", *run_dir, "The run's directory (run.dir)")->required();
  command->callback([run_dir] { tell(*run_dir); });
}

}  // namespace weft::cli
