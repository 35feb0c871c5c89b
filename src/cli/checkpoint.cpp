// The command `weft checkpoint`: ls, verify, import and export.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/check.hpp"
#include "base/quoted.hpp"
#include "base/version.hpp"
#include "ckpt/list.hpp"
#include "ckpt/manifest.hpp"
#include "ckpt/verify.hpp"
#include "cli/commands.hpp"
#include "compile/programs.hpp"
#include "deck/bytes.hpp"
#include "hf/export.hpp"
#include "hf/import.hpp"
#include "io/file.hpp"
#include "train/checkpointing.hpp"

namespace weft::cli {
namespace {

/// Whether a run has written its deck there. Throws Unreadable where storage does not say.
bool is_of_a_run(const std::filesystem::path& dir) {
  return io::file_bytes((dir / "deck.toml").string()).has_value();
}

/// Whether `dir` is a run's directory of checkpoints: `checkpoints`, or what a later start made of it.
bool is_of_a_runs_checkpoints(const std::filesystem::path& dir) {
  return dir.filename().string().starts_with("checkpoints") && is_of_a_run(dir.parent_path());
}

/// The path from the root, without a slash at its end, so that its name and what it lies in can be asked.
std::filesystem::path whole_path(const std::string& named) {
  const std::filesystem::path path = std::filesystem::absolute(named).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// The directory whose checkpoints are asked for. Where a run's own directory is named, that is the one with
/// its checkpoints. Throws Error(bad_input) for what is no directory, and for one that neither has
/// checkpoints nor is a run's.
std::string checkpoints_directory(const std::string& named) {
  namespace fs = std::filesystem;
  const fs::path dir = whole_path(named);
  if (is_of_a_run(dir)) return (fs::path(named) / "checkpoints").string();
  const bool of_a_run = is_of_a_runs_checkpoints(dir);
  std::error_code unknown;  // what cannot be looked at is told by what lists it
  const fs::file_type type = fs::status(dir, unknown).type();
  if (of_a_run && type == fs::file_type::not_found) return named;  // the run has not saved yet
  WEFT_VALIDATE(type != fs::file_type::not_found,
                "cannot list the checkpoints of {} (there is no such directory); name a run's directory",
                named);
  WEFT_VALIDATE(type != fs::file_type::regular,
                "cannot list the checkpoints of {} (it is a file); name a run's directory", named);
  WEFT_VALIDATE(of_a_run || ckpt::has_any(named),
                "{} is no run (it has neither checkpoints nor a deck.toml); name a run's directory, or its "
                "checkpoints",
                named);
  return named;
}

void verify(const std::string& dir, bool cached) {
  ckpt::check_named(dir);
  const std::vector<std::string> problems = ckpt::verify(dir, !cached);
  if (problems.empty()) {
    std::printf("%s: whole\n", dir.c_str());
    return;
  }
  std::string text;
  for (const std::string& problem : problems) text += (text.empty() ? "" : "\n") + problem;
  throw Error(ExitCode::bad_checkpoint, text);
}

struct ExportArguments {
  std::string checkpoint, out, dtype = "bf16", shard_size = "4GiB";
  std::int64_t max_position = 0;
};

void export_checkpoint(const ExportArguments& arguments) {
  hf::ExportOptions options;
  options.dtype = arguments.dtype == "f32"   ? hf::Element::f32
                  : arguments.dtype == "f16" ? hf::Element::f16
                                             : hf::Element::bf16;
  const auto bytes = deck::parse_bytes(arguments.shard_size);
  WEFT_VALIDATE(bytes && *bytes >= 1 && *bytes < 9e18,
                "--shard-size {}: not a size; write 4GiB, 500MB, or a number of bytes", arguments.shard_size);
  options.file_bytes = static_cast<std::int64_t>(*bytes);
  options.max_position = arguments.max_position;
  ckpt::check_named(arguments.checkpoint);
  const hf::ExportReport report = hf::export_weights(arguments.checkpoint, arguments.out, options);
  std::printf("%s: %lld parameters in %s, %.1f MiB in %d file%s\n", arguments.out.c_str(),
              static_cast<long long>(report.parameters), arguments.dtype.c_str(),
              static_cast<double>(report.bytes) / (1 << 20), report.files, report.files == 1 ? "" : "s");
}

struct ImportArguments {
  std::string model, out;
};

/// The deck's tables for imported weights; with a checkpoint also the key by which a run starts from it.
std::string tables_for(const ModelDeck& model, const std::string& checkpoint) {
  std::string text = hf::model_tables(model);
  if (checkpoint.empty()) return text;
  const std::size_t next_table = text.find("\n[");
  text.insert(next_table == std::string::npos ? text.size() : next_table + 1,
              fmt::format("init = {}\n", weft::quoted(checkpoint)));
  return text;
}

/// Refuses a run's own directory: its checkpoints are in a directory below, so nothing would read these.
void check_import(const std::string& out) {
  const std::filesystem::path dir = whole_path(out);
  WEFT_VALIDATE(
      !is_of_a_run(dir) && !io::file_bytes((dir / "lock").string()) && !is_of_a_runs_checkpoints(dir),
      "{} is a run's; name another directory, and start from it by model.init", out);
}

void import_model(const ImportArguments& arguments) {
  if (!arguments.out.empty()) check_import(arguments.out);
  const hf::Weights weights(arguments.model);
  const Deck deck = hf::deck_of(weights);
  const std::vector<Unit> units = ckpt::stored_units(model::units(compile::spec_of(deck)));
  weights.check(units);
  std::string checkpoint;
  if (!arguments.out.empty()) {
    ckpt::RunState run;
    run.seed = static_cast<std::uint64_t>(deck.run.seed);
    run.deck = print_deck(deck);
    run.model_key = train::model_key(deck);
    run.weft_version = weft_version();
    run.git_hash = weft_git_hash();
    run.mode = name_of(deck.parallel.mode);
    const ckpt::SaveReport report = hf::import_weights(weights, run, units, arguments.out);
    checkpoint = report.path;
    if (const std::int64_t kept = hf::exported_max_position(deck), there = weights.config().max_position;
        kept != there)
      std::printf(
          "# The checkpoint does not keep max_position_embeddings = %lld: an export writes %lld, or what "
          "--max-position says.\n",
          static_cast<long long>(there), static_cast<long long>(kept));
    std::printf("# %s: %.1f MiB. A deck that starts from it:\n", report.path.c_str(),
                static_cast<double>(report.bytes) / (1 << 20));
  }
  std::fputs(tables_for(weights.config().model, checkpoint).c_str(), stdout);
}

void add_export(CLI::App& command) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* to =
      command.add_subcommand("export", "Write a checkpoint's weights for Hugging Face's transformers");
  to->add_option("DIR", arguments->checkpoint, "A checkpoint: .../step-N")->required();
  to->add_option("OUT_DIR", arguments->out, "A new directory, for config.json and safetensors")->required();
  to->add_option("--dtype", arguments->dtype, "Type of the weights")
      ->check(CLI::IsMember({"bf16", "f16", "f32"}))
      ->capture_default_str();
  to->add_option("--shard-size", arguments->shard_size, "Weights in a file, at most")->capture_default_str();
  to->add_option(
        "--max-position", arguments->max_position,
        "The longest context, which config.json says (default: data.seq, or what rope_scaling stretches "
        "to)")
      ->check(whole_number_from(1));
  to->callback([arguments] { export_checkpoint(*arguments); });
}

void add_import(CLI::App& command) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* from = command.add_subcommand(
      "import", "Make a checkpoint from a Hugging Face model, and print the deck's [model] for it");
  from->add_option("MODEL_DIR", arguments->model,
                   "config.json and safetensors, as save_pretrained writes them")
      ->required();
  from->add_option("OUT_DIR", arguments->out, "Gets step-00000000; without it, only [model] is printed");
  from->callback([arguments] { import_model(*arguments); });
}

}  // namespace

void add_checkpoint(CLI::App& app) {
  CLI::App* command = app.add_subcommand("checkpoint", "Look at checkpoints, export and import them");
  command->require_subcommand(1);
  auto dir = std::make_shared<std::string>();
  CLI::App* ls = command->add_subcommand("ls", "List the checkpoints of a run");
  ls->add_option("DIR", *dir, "RUN_DIR, or RUN_DIR/checkpoints")->required();
  ls->callback([dir] { std::fputs(ckpt::list(checkpoints_directory(*dir)).c_str(), stdout); });
  CLI::App* check = command->add_subcommand(
      "verify", "Read every byte of one checkpoint and hold it against its checksums");
  check->add_option("DIR", *dir, "A checkpoint: .../step-N")->required();
  auto cached = std::make_shared<bool>(false);
  check->add_flag("--cached", *cached, "Read through the page cache, as with checkpoint.direct_io = false");
  check->callback([dir, cached] { verify(*dir, *cached); });
  add_export(*command);
  add_import(*command);
}

}  // namespace weft::cli
