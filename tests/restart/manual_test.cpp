// Tests the manual page and the completion: that they know all commands, options and keys, as the shell and
// the formatter see them.
#include <regex>
#include <sstream>

#include "base/check.hpp"
#include "deck/schema.hpp"
#include "restart/workspace.hpp"
#include "support/missing.hpp"

namespace weft::test {
namespace {

using Words = std::vector<std::string>;

/// The words of a help text that begin a line of the form "  WORD  ...": commands, or "--options".
Words listed(const std::string& help, const std::string& heading) {
  Words words;
  std::istringstream text(help.substr(std::min(help.find(heading), help.size())));
  std::string line;
  std::getline(text, line);
  const std::regex first(R"(^  ((?:-\w,)?--[\w-]+|[a-z]+)\b.*)");
  for (std::smatch found; std::getline(text, line) && !line.empty();)
    if (std::regex_match(line, found, first)) words.push_back(found[1]);
  return words;
}

class Manual : public Workspace {
 protected:
  void write_completion() const { write_file(path("completion"), run(weft({"completion"})).out); }

  /// What bash offers behind these words.
  Words offered(const Words& words) const {
    write_completion();
    std::string script = "source " + path("completion") + "; COMP_WORDS=(";
    for (const std::string& word : words) script += "'" + word + "' ";
    script +=
        "); COMP_CWORD=" + std::to_string(words.size() - 1) + R"(; _weft; printf '%s\n' "${COMPREPLY[@]}")";
    const Ended ended = run({"bash", "-c", script});
    EXPECT_STATUS(ended, 0);
    Words lines;
    std::istringstream text(ended.out);
    for (std::string line; std::getline(text, line);)
      if (!line.empty()) lines.push_back(line);
    return lines;
  }

  /// What stands on the line of an interactive bash in the test's directory when TAB is pressed behind
  /// `typed`.
  std::string completed(const std::string& typed) const {
    write_completion();
    write_file(path("in a terminal.py"), R"(import os, pty, re, sys, time, select
folder, typed = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    os.chdir(folder)
    os.environ.update(TERM="dumb", PS1="prompt> ", INPUTRC="/dev/null")
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
def read(until):
    text, end = "", time.time() + 20
    while time.time() < end and not re.search(until, text):
        if select.select([terminal], [], [], 0.1)[0]:
            text += os.read(terminal, 4096).decode(errors="replace")
    return text
os.write(terminal, b"source ./completion; bind 'set bell-style none'; echo rea''dy\n")
read("ready\r\n[^>]*prompt> ")  # Before the prompt, the terminal itself echoes what is typed.
os.write(terminal, typed.encode() + b"\t'#end'\n")
print(re.findall(r"weft [^\r\n]*", read("#end'"))[-1].split("'#end'")[0])
)");
    const Ended ended = run({"python3", path("in a terminal.py"), path(""), typed});
    EXPECT_STATUS(ended, 0);
    return ended.out.substr(0, ended.out.find('\n'));
  }
};

TEST_F(Manual, HasEveryCommandOptionKeyAndExitCode) {
  const Ended page = run(weft({"manual"})), completion = run(weft({"completion"}));
  EXPECT_STATUS(page, 0);
  const auto expect = [&](const std::string& text) {
    EXPECT_NE(page.out.find(text), std::string::npos) << text;
  };
  const std::regex dash("-");
  const Words commands = listed(run(weft({"--help"})).out, "Subcommands:");
  EXPECT_GE(commands.size(), 13U);
  for (const std::string& command : commands) {
    const std::string help = run(weft({command, "--help"})).out;
    Words paths{command};
    for (const std::string& part : listed(help, "Subcommands:")) paths.push_back(command + " " + part);
    for (const std::string& path : paths) {
      expect(".SS \"weft " + path);
      EXPECT_NE(completion.out.find("'" + path + "'"), std::string::npos) << path;
      Words arguments{command};
      if (path != command) arguments.push_back(path.substr(command.size() + 1));
      arguments.push_back("--help");
      for (const std::string& option : listed(run(weft(arguments)).out, "Options:"))
        if (option != "-h,--help") {
          expect(".B " + std::regex_replace(option, dash, "\\-"));
          EXPECT_NE(completion.out.find(option.substr(option.find("--"))), std::string::npos) << option;
        }
    }
  }
  for (const deck::Key& key : deck::keys()) {
    expect("\n.B " + std::string(key.name()) + "\n(");
    EXPECT_NE(completion.out.find(std::string(key.path) + "="), std::string::npos) << key.path;
  }
  for (const ExitCode code : {ExitCode::ok, ExitCode::failure, ExitCode::bad_input, ExitCode::comm_failure,
                              ExitCode::bad_checkpoint, ExitCode::stopped, ExitCode::environment,
                              ExitCode::internal, ExitCode::unfinished, ExitCode::hang})
    expect("\n.B " + std::to_string(static_cast<int>(code)) + "\n");
}

TEST_F(Manual, IsFormattedWithoutAWarning) {
  if (run({"sh", "-c", "command -v groff"}).status != 0) WEFT_MISSING_TOOL() << "groff is not installed";
  const Ended formatted =
      run({"sh", "-c", "'" + weft({})[0] + "' manual | groff -man -ww -Tascii -P-cbou -rLL=1000n -rHY=0"});
  EXPECT_STATUS(formatted, 0);
  EXPECT_EQ(formatted.err, "");
  EXPECT_NE(formatted.out.find("one of ddp, zero1, zero2, fsdp"), std::string::npos);
  EXPECT_EQ(formatted.out.find('`'), std::string::npos) << "what stands between backticks is bold";
}

TEST_F(Manual, BashCompletesCommandsOptionsKeysAndValues) {
  EXPECT_EQ(offered({"weft", "tr"}), Words{"train"});
  EXPECT_EQ(offered({"weft", "checkpoint", "ex"}), Words{"export"});
  EXPECT_EQ(offered({"weft", "checkpoint", "export"}), Words{"export"});
  EXPECT_EQ(offered({"weft", "checkpoint", ""}), (Words{"ls", "verify", "export", "import"}));
  EXPECT_EQ(offered({"weft", "checkpoint", "export", "--dt"}), Words{"--dtype"});
  EXPECT_EQ(offered({"weft", "plan", "deck.toml", "--wor"}), Words{"--world"});
  EXPECT_EQ(offered({"weft", "train", "deck.toml", "--set", "optimizer.warm"}), Words{"optimizer.warmup="});
  EXPECT_EQ(offered({"weft", "train", "deck.toml", "--set", "parallel.mode", "=", "zero"}),
            (Words{"zero1", "zero2"}));
  EXPECT_EQ(offered({"weft", "train", "deck.toml", "--set", "data.synthetic", "="}),
            (Words{"true", "false"}));
  EXPECT_EQ(offered({"weft", "plan", "deck.toml", "--machine", "gh"}), Words{"gh200"});
}

/// Readline quotes what it takes for a file's name, and asks for names itself where no word fits.
TEST_F(Manual, CompletesInATerminal) {
  write_file(path("my own deck.toml"), "");
  EXPECT_EQ(completed("weft train d.toml --set optimizer.warm"), "weft train d.toml --set optimizer.warmup=");
  EXPECT_EQ(completed("weft train d.toml --set parallel.mode=fs"),
            "weft train d.toml --set parallel.mode=fsdp ");
  EXPECT_EQ(completed("weft train my"), "weft train my\\ own\\ deck.toml ");
  EXPECT_EQ(completed("weft plan deck.t"), "weft plan deck.toml ");
}

}  // namespace
}  // namespace weft::test
