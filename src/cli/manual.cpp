// The commands `weft manual` and `weft completion`: the manual page and bash's completion, made from the
// same commands and the same schema of the deck as everything else.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/version.hpp"
#include "cli/commands.hpp"
#include "deck/schema.hpp"
#include "machine/profile.hpp"

namespace weft::cli {
namespace {

/// What each exit code says; docs/running.md has more.
constexpr std::array exit_codes{
    std::pair{ExitCode::ok, "done: all steps"},
    std::pair{ExitCode::failure, "no result, though input and machine are good"},
    std::pair{ExitCode::bad_input, "bad input"},
    std::pair{ExitCode::comm_failure, "communication failed"},
    std::pair{ExitCode::bad_checkpoint, "a checkpoint cannot be used, or cannot be read"},
    std::pair{ExitCode::stopped, "stopped by the file STOP, after a checkpoint"},
    std::pair{ExitCode::environment, "the machine or its storage refuses"},
    std::pair{ExitCode::internal, "a bug in Weft"},
    std::pair{ExitCode::unfinished,
              "stopped by walltime or a signal, after a checkpoint: start it again to go on"},
    std::pair{ExitCode::hang, "a hang: a rank or the storage did not answer in time"},
};

/// The text as roff takes it, what stands between backticks in bold.
std::string roff(std::string_view text) {
  std::string out;
  bool bold = false, line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    line_begins = c == '\n';
    if (c == '`') {
      bold = !bold;
      out += bold ? "\\fB" : "\\fR";
    } else if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

bool is_flag(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}

/// A command's options but --help, those with "--" or those without.
std::vector<const CLI::Option*> options_of(const CLI::App& command, bool positional) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional() == positional && option != command.get_help_ptr()) options.push_back(option);
  return options;
}

std::string usage_of(const CLI::App& command) {
  std::string usage;
  for (const CLI::Option* option : options_of(command, true))
    usage += option->get_required() ? fmt::format(" {}", option->get_name(true))
                                    : fmt::format(" [{}]", option->get_name(true));
  return usage + " [OPTION]...";
}

/// What the option may be and is without being given: " (one of bf16, f16; default bf16)".
std::string limits_of(const CLI::Option& option) {
  std::vector<std::string> limits;
  const std::string type = option.get_type_name();  // "TEXT:{bf16,f16}"
  if (const std::size_t open = type.find('{'); open != std::string::npos)
    limits.push_back("one of " + type.substr(open + 1, type.find('}') - open - 1));
  if (!option.get_default_str().empty()) limits.push_back("default " + option.get_default_str());
  return limits.empty() ? "" : fmt::format(" ({})", fmt::join(limits, "; "));
}

void add_command_to(std::string& page, const CLI::App& command, const std::string& path) {
  const auto parts = command.get_subcommands({});
  const std::string usage = parts.empty() ? usage_of(command) : " COMMAND";
  page += fmt::format(".SS \"{}\"\n{}\n", roff(path + usage), roff(command.get_description()));
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : options_of(command, positional)) {
      std::string name = positional ? option->get_name(true) : option->get_name(false, true);
      if (!positional && !is_flag(*option)) name += " VALUE";
      page += fmt::format(".TP\n.B {}\n{}{}\n", roff(name), roff(option->get_description()),
                          roff(limits_of(*option)));
    }
  }
  for (const CLI::App* part : parts) add_command_to(page, *part, path + " " + part->get_name());
}

std::string manual_page(const CLI::App& app) {
  std::string page = fmt::format(".TH WEFT 1 \"\" \"weft {}\" \"User Commands\"\n", roff(weft_version()));
  page += ".SH NAME\nweft \\- fully sharded training of Llama\\-class transformers\n";
  page +=
      ".SH SYNOPSIS\n.B weft\n.I COMMAND\n[\\fIARGUMENT\\fR]...\n.br\n.B mpirun \\-n\n.I RANKS\n.B weft "
      "train\n"
      ".I DECK\n";
  page +=
      ".SH DESCRIPTION\nWeft trains transformers that are described by one input deck (TOML), on as many MPI "
      "ranks as it is started on. "
      "Parameters, gradients and the optimizer's state are cut over a mesh of ranks. "
      "Any key of a deck can be set on the command line, after the file: \\fB\\-\\-set "
      "\\fItable.key\\fR=\\fIvalue\\fR.\n";
  page += ".SH COMMANDS\n";
  for (const CLI::App* command : app.get_subcommands({}))
    add_command_to(page, *command, "weft " + command->get_name());
  page += ".SH DECK\nKeys by table: type, default, range, and what a key does.\n";
  std::string_view table;
  for (const deck::Key& key : deck::keys()) {
    if (key.table() != table) {
      table = key.table();
      page += fmt::format(".SS \"[{}]\"\n{}\n", roff(table), roff(deck::find_table(table)->doc));
    }
    const std::string range = deck::range_text(key.range);
    page += fmt::format(".TP\n.B {}\n({}{}{}{}) {}\n", roff(key.name()), roff(deck::type_text(key)),
                        key.need == deck::Need::required ? ", " : ", default ", roff(deck::default_text(key)),
                        range.empty() ? "" : ", " + roff(range), roff(key.doc));
  }
  page += ".SH EXIT STATUS\n";
  for (const auto& [code, text] : exit_codes)
    page += fmt::format(".TP\n.B {}\n{}\n", static_cast<int>(code), roff(text));
  page +=
      ".SH SEE ALSO\n.BR mpirun (1),\n.BR sbatch (1)\n.br\nThe documents and decks that are installed with "
      "it: share/doc/weft, share/weft.\n";
  return page;
}

/// A case of the completion for the command of these words, and of each of its parts: what may come next.
void add_cases(std::string& cases, const CLI::App& command, const std::string& path) {
  std::vector<std::string> next;
  const auto parts = command.get_subcommands({});
  for (const CLI::App* part : parts) {
    next.push_back(part->get_name());
    add_cases(cases, *part, path + " " + part->get_name());
  }
  for (const CLI::Option* option : options_of(command, false))
    for (const std::string& name : option->get_lnames()) next.push_back("--" + name);
  cases += parts.empty() ? fmt::format("      '{0}' | '{0} '*) words='{1}' ;;\n", path, fmt::join(next, " "))
                         : fmt::format("      '{0}') words='{1}' files=no ;;\n", path, fmt::join(next, " "));
}

/// A function for bash.
std::string completion(const CLI::App& app) {
  std::string cases, choices;
  std::vector<std::string> commands, keys;
  for (const CLI::App* command : app.get_subcommands({})) {
    commands.push_back(command->get_name());
    add_cases(cases, *command, command->get_name());
  }
  for (const deck::Key& key : deck::keys()) {
    keys.push_back(std::string(key.path) + "=");
    const auto of_key = deck::words_of(key);
    if (!of_key.empty())
      choices += fmt::format("      {}) words='{}' files=no ;;\n", key.path, fmt::join(of_key, " "));
  }
  return fmt::format(R"(# Completion of weft {version} for bash, written by `weft completion`.
_weft() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} words='' key='' files=yes
  # bash takes "--set key=value" for four words.
  if [ "$cur" = = ] && [ "${{COMP_WORDS[COMP_CWORD-2]}}" = --set ]; then
    key=$prev cur=''
  elif [ "$prev" = = ] && [ "${{COMP_WORDS[COMP_CWORD-3]}}" = --set ]; then
    key=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  if [ "$COMP_CWORD" = 1 ]; then
    words='{commands} --help --version' files=no
  elif [ -n "$key" ]; then
    case $key in
{choices}    esac
  elif [ "$prev" = --set ]; then
    compopt -o nospace 2>/dev/null
    words='{keys}' files=no
  elif [ "$prev" = --machine ]; then
    words='{machines}'
  else
    [ "$COMP_CWORD" = 2 ] || command+=" ${{COMP_WORDS[2]}}"
    case $command in
{cases}    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  # Where none of these words fits, readline completes names of files itself.
  [ $files = no ] || compopt -o default 2>/dev/null
}}
complete -F _weft weft
)",
                     fmt::arg("version", weft_version()), fmt::arg("commands", fmt::join(commands, " ")),
                     fmt::arg("choices", choices), fmt::arg("keys", fmt::join(keys, " ")),
                     fmt::arg("machines", fmt::join(machine::shipped_machine_names(), " ")),
                     fmt::arg("cases", cases));
}

}  // namespace

void add_manual(CLI::App& app) {
  app.add_subcommand("manual", "Print the manual page (weft manual | man -l -)")->callback([&app] {
    std::fputs(manual_page(app).c_str(), stdout);
  });
  app.add_subcommand("completion", "Print bash's completion (source <(weft completion))")->callback([&app] {
    std::fputs(completion(app).c_str(), stdout);
  });
}

}  // namespace weft::cli
