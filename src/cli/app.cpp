#include "cli/app.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "cli/commands.hpp"
#include "comm/world.hpp"
#include "deck/suggest.hpp"

namespace weft::cli {

void add_checkpoint_option(CLI::App& command, std::string& checkpoint) {
  command
      .add_option("--checkpoint", checkpoint, "A checkpoint, or a run's checkpoints directory (its newest)")
      ->required();
}

CLI::Option* add_end_of_document_option(CLI::App& command, std::string& token) {
  return command.add_option("--end-of-document", token,
                            "Token that ends documents, where a tokenizer.json leaves that open");
}

void add_sharing_options(CLI::App& command, int& tensor, int& context, const std::string& others) {
  command
      .add_option("--tensor", tensor,
                  "Ranks that share each layer (a divisor of the ranks); the others have other " + others)
      ->check(whole_number_from(1))
      ->capture_default_str();
  command
      .add_option("--context", context,
                  "Ranks that share each sequence (a divisor of the ranks, beside --tensor)")
      ->check(whole_number_from(1))
      ->capture_default_str();
}

CLI::Option* add_deck_arguments(CLI::App& command, DeckArguments& arguments) {
  CLI::Option* deck = command.add_option("DECK", arguments.file, "The input deck (TOML)");
  command.add_option("--set", arguments.sets, "Change a key: table.key=value; may be given again")
      ->take_all()
      ->allow_extra_args(false);
  return deck;
}

CLI::Validator whole_number_from(std::uint64_t least, std::uint64_t most) {
  const auto check = [least, most](const std::string& text) {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && rest == end && value >= least && value <= most) return std::string();
    return fmt::format("{} is not a whole number from {} to {}", text, least, most);
  };
  return {check, "", "whole number"};
}

CLI::Validator number_above_zero() {
  const auto check = [](const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0' && std::isfinite(value) && value > 0) return std::string();
    return fmt::format("{} is not a number above 0", text);
  };
  return {check, "", "number above 0"};
}

namespace {

/// What is wrong with the arguments. For an unknown command, CLI11 would only say that a command is required.
std::string problem_of(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  const std::vector<std::string_view> names(commands.begin(), commands.end());
  if (word.empty() || word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end())
    return fmt::format("{} (see weft --help, or weft COMMAND --help)", error.what());
  return fmt::format("'{}' is not a command ({}){}", word, fmt::join(names, ", "),
                     deck::did_you_mean(deck::nearest_word(word, names)));
}

/// Lets what is printed wait for the last flush, which tells why it failed: a stream forgets the error number
/// of an earlier write. A terminal shows what it gets at once. Call it before anything is printed.
void hold_output() {
  if (::isatty(STDOUT_FILENO) != 0) return;
  static std::array<char, std::size_t{1} << 20> held;
  std::setvbuf(stdout, held.data(), _IOFBF, held.size());
}

/// The exit code of a command whose result is what it has printed, and which ends with `code`. Where that
/// cannot be written it says so, and a success becomes the machine's error. A reader that is gone ends the
/// process before, by SIGPIPE.
int code_of_output(int code) {
  const bool flushed = std::fflush(stdout) == 0;
  const std::string why = flushed ? "a part of it is lost" : std::strerror(errno);
  if (flushed && std::ferror(stdout) == 0) return code;
  tell_error(fmt::format("cannot write standard output ({}); free some space, or let it go elsewhere", why));
  return code == 0 ? static_cast<int>(ExitCode::environment) : code;
}

}  // namespace

void tell_error(std::string_view message) {
  std::vector<std::string> lines;
  std::string text;
  while (!message.empty()) {
    const std::size_t end = message.find('\n');
    lines.push_back(fmt::format("weft: error: {}", message.substr(0, end)));
    text += lines.back() + '\n';
    message.remove_prefix(end == std::string_view::npos ? message.size() : end + 1);
  }
  log::tell_last(stderr, text);
  // The terminal of a run may be gone. Its storage may not answer, and then the other ranks have to be ended.
  log::record_errors(std::move(lines), 2);
}

int run(int argc, char** argv) {
  hold_output();
  CLI::App app{"Weft: fully sharded training of Llama-class transformers from an input deck.", "weft"};
  app.set_version_flag("--version", fmt::format("weft {} ({})\nbuilt with {}", weft_version(),
                                                weft_git_hash(), weft_build_text()));
  app.require_subcommand(1);
  Context context{argc, argv, 0};
  add_train(app, context);
  add_plan(app);
  add_advise(app);
  add_profile(app, context);
  add_deck(app);
  add_data(app);
  add_checkpoint(app);
  add_sample(app, context);
  add_eval(app, context);
  add_compare(app, context);
  add_hang(app);
  add_study(app, context);
  add_manual(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help and --version
    std::ostringstream text;
    const int code = app.exit(e, text, text);
    std::fputs(text.str().c_str(), stdout);
    return code_of_output(code);
  } catch (const CLI::ParseError& e) {
    // Without a world, each rank that was given these arguments would print the line.
    const auto world = comm::make_world(&context.argc, &context.argv);
    throw Error(ExitCode::bad_input, world->rank() == 0 ? problem_of(app, e, argc, argv) : std::string());
  }
  // Training prints nothing of its own here, and a run is no failure for what libraries print.
  return app.got_subcommand("train") ? context.exit_code : code_of_output(context.exit_code);
}

}  // namespace weft::cli
