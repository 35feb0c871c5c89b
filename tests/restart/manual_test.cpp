// Tests the manual page and the completion: that they know all commands, options and keys, as the shell and
// the formatter see them.
#include <sstream>

#include "deck/schema.hpp"
#include "restart/workspace.hpp"
#include "support/missing.hpp"

namespace weft::test {
namespace {

class Manual : public Workspace {
 protected:
  /// What bash offers behind these words.
  std::vector<std::string> offered(const std::vector<std::string>& words) const {
    write_file(path("completion"), run(weft({"completion"})).out);
    std::string script = "source " + path("completion") + "; COMP_WORDS=(";
    for (const std::string& word : words) script += "'" + word + "' ";
    script +=
        "); COMP_CWORD=" + std::to_string(words.size() - 1) + R"(; _weft; printf '%s\n' "${COMPREPLY[@]}")";
    const Ended ended = run({"bash", "-c", script});
    EXPECT_STATUS(ended, 0);
    std::vector<std::string> lines;
    std::istringstream text(ended.out);
    for (std::string line; std::getline(text, line);)
      if (!line.empty()) lines.push_back(line);
    return lines;
  }
};

TEST_F(Manual, HasEveryCommandOptionAndKey) {
  const Ended page = run(weft({"manual"}));
  EXPECT_STATUS(page, 0);
  for (const char* text : {".SS \"weft train ", ".SS \"weft data tokenize ", ".SS \"weft checkpoint export ",
                           ".B \\-\\-world VALUE\n", ".SH EXIT STATUS\n", ".B 76\n"})
    EXPECT_NE(page.out.find(text), std::string::npos) << text;
  for (const deck::Key& key : deck::keys())
    EXPECT_NE(page.out.find("\n.B " + std::string(key.name()) + "\n("), std::string::npos) << key.path;
}

TEST_F(Manual, IsFormattedWithoutAWarning) {
  if (run({"sh", "-c", "command -v groff"}).status != 0) WEFT_MISSING_TOOL() << "groff is not installed";
  const Ended formatted =
      run({"sh", "-c", "'" + weft({})[0] + "' manual | groff -man -ww -Tascii -P-cbou -rLL=100n"});
  EXPECT_STATUS(formatted, 0);
  EXPECT_EQ(formatted.err, "");
  EXPECT_NE(formatted.out.find("one of ddp, zero1, zero2, fsdp"), std::string::npos);
  EXPECT_EQ(formatted.out.find('`'), std::string::npos) << "what stands between backticks is bold";
}

TEST_F(Manual, BashCompletesCommandsOptionsKeysAndValues) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(offered({"weft", "tr"}), Words{"train"});
  EXPECT_EQ(offered({"weft", "checkpoint", "ex"}), Words{"export"});
  EXPECT_EQ(offered({"weft", "checkpoint", "export", "--dt"}), Words{"--dtype"});
  EXPECT_EQ(offered({"weft", "plan", "deck.toml", "--wor"}), Words{"--world"});
  EXPECT_EQ(offered({"weft", "train", "deck.toml", "--set", "optimizer.warm"}), Words{"optimizer.warmup="});
  EXPECT_EQ(offered({"weft", "train", "deck.toml", "--set", "parallel.mode", "=", "zero"}),
            (Words{"zero1", "zero2"}));
  EXPECT_EQ(offered({"weft", "train", "deck.toml", "--set", "data.synthetic", "="}),
            (Words{"true", "false"}));
  EXPECT_EQ(offered({"weft", "plan", "deck.toml", "--machine", "gh"}), Words{"gh200"});
  // Where no word fits, a file may.
  EXPECT_EQ(offered({"weft", "train", path("deck.t")}), Words{deck()});
}

}  // namespace
}  // namespace weft::test
