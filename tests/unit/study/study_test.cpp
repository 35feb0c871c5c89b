// Tests studies: the cells that a file stands for, the mistakes in it, and that figures are made once and
// kept.
#include "study/study.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "study/cell.hpp"
#include "study/study_file.hpp"
#include "support/small_deck.hpp"

namespace weft::study {
namespace {

namespace fs = std::filesystem;

/// A directory with a deck, and studies of it.
class StudyTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / fmt::format("weft_study_{}", ::getpid());
    fs::create_directories(dir_);
    write("small.toml", test::small_deck_text);
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(dir_ / name) << text; }
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(dir_ / name).rdbuf();
    return text.str();
  }
  /// The study of a file with these lines, in which DIR is the directory.
  Study study(std::string text) const {
    for (std::size_t at; (at = text.find("DIR")) != std::string::npos;) text.replace(at, 3, dir_.string());
    write("study.toml", text);
    return read_study(path("study.toml"));
  }
  std::string problem(const std::string& text) const {
    try {
      study(text);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::bad_input);
      std::string message = e.what();
      for (std::size_t at; (at = message.find(dir_.string() + "/")) != std::string::npos;)
        message.erase(at, dir_.string().size() + 1);
      return message;
    }
    return "";
  }
  Progress make_all(const Study& study, bool again = false) {
    return make(study, {path("study.toml"), WEFT_PROGRAM, again},
                [this](const std::string& line) { told_ += line + "\n"; });
  }

  fs::path dir_;
  std::string told_;
};

TEST_F(StudyTest, HasACellForEachCombination) {
  const Study s = study(R"(
name = "s"
dir = "DIR/out"
[[part]]
deck = "DIR/small.toml"
ranks = [1, 2, 4]
scaling = "weak"
set = ["run.steps=3"]
over = { "precision.params" = ["f32", "bf16"], data.batch = [1, 3] }
[[part]]
how = "simulate"
machine = ["h100", "a100"]
deck = "DIR/small.toml"
ranks = 2
)");
  ASSERT_EQ(s.cells.size(), 3U * 2 * 2 + 2);
  EXPECT_EQ(s.cells[0].name, "1-run-small-precision.params=f32--data.batch=1-1");
  EXPECT_EQ(s.cells[0].series, "small, precision.params=f32, data.batch=1 (run, weak)");
  EXPECT_EQ(s.cells[5].sets, (std::vector<std::string>{"run.steps=3", "precision.params=f32", "data.batch=3",
                                                       "data.global_batch=48"}));
  EXPECT_EQ(s.cells[5].ranks, 4);
  EXPECT_EQ(s.cells[12].sets, (std::vector<std::string>{"schedule.profile=h100"}));
  EXPECT_EQ(s.cells[12].series, "small, h100 (simulate, strong)");
  EXPECT_EQ(s.launch, "jobs/launch.sh -n {ranks} --");
}

TEST_F(StudyTest, SaysWhatIsWrongAndWhere) {
  const std::string part = "[[part]]\ndeck = \"DIR/small.toml\"\nranks = 1\n";
  EXPECT_EQ(problem(""), "study.toml: part: missing (a study has one [[part]] or more)");
  EXPECT_EQ(problem("nam = \"x\"\n" + part),
            "study.toml:1: nam: unknown key (keys: name, dir, launch, sbatch, part); did you mean 'name'?");
  EXPECT_EQ(problem("launch = \"mpirun\"\n" + part),
            "study.toml:1: launch: it has no '{ranks}' (the number of ranks goes there)");
  EXPECT_EQ(problem(part + "how = \"simulated\"\n"),
            "study.toml:4: how: 'simulated' is not one of the choices (run, slurm, simulate); did you mean "
            "'simulate'?");
  EXPECT_EQ(problem("[[part]]\ndeck = \"DIR/small.toml\"\nranks = [2, 0]\n"),
            "study.toml:3: ranks: it is not a whole number from 1 to 16777216");
  EXPECT_EQ(
      problem(part + "machine = \"h100\"\n"),
      "study.toml:4: machine: only simulated cells have a machine that is not here (how = \"simulate\")");
  EXPECT_EQ(problem(part + "over = { data.batch = [] }\n"), "study.toml:4: over.data.batch: an empty list");
  EXPECT_EQ(problem(part + "how = \"simulate\"\n"),
            "study.toml:1: machine: missing (a simulated part names its machines)");
  EXPECT_EQ(problem(part + "over = { \"data.batches\" = [1] }\n"),
            "--set: data.batches: unknown key (`weft deck --schema` lists all); did you mean 'data.batch'?");
  EXPECT_EQ(
      problem("[[part]]\ndeck = \"DIR/small.toml\"\nranks = [7, 8]\nscaling = \"weak\"\n"),
      "study.toml: scaling: data.global_batch = 12 of 7 ranks cannot grow to 8 ranks in whole sequences");
  EXPECT_EQ(problem("dir = \"\"\n" + part), "study.toml:1: dir: it is empty (it names a directory)");
  EXPECT_NE(problem(part + "how = \"simulate\"\nmachine = \"none.toml\"\n")
                .find("cannot read the machine profile none.toml"),
            std::string::npos);
  EXPECT_NE(problem("[[part]]\ndeck = \"none.toml\"\nranks = 1\n").find("none.toml"), std::string::npos);
}

TEST_F(StudyTest, SimulatesOnceAndKeepsFigures) {
  const std::string text = R"(
dir = "DIR/out"
[[part]]
how = "simulate"
machine = "h100"
deck = "DIR/small.toml"
ranks = [1, 2, 5, 12]
set = ["parallel.mesh=auto"]
)";
  const Study s = study(text);
  const Progress first = make_all(s);
  EXPECT_EQ(first.done, 4U);
  EXPECT_EQ(first.failed + first.missing, 0U);
  const nlohmann::json table = nlohmann::json::parse(text_of("out/table.json"));
  ASSERT_EQ(table.size(), 4U);
  EXPECT_EQ(table[0]["status"], "done");
  EXPECT_GT(table[1]["tokens_per_s_rank"].get<double>(), 0);
  EXPECT_EQ(table[2]["status"], "refused") << "12 sequences do not divide over 5 ranks, or a layer's parts";
  EXPECT_FALSE(table[3]["mesh"].get<std::string>().empty());
  const std::string csv = text_of("out/table.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
  const std::string page = text_of("out/index.html");
  EXPECT_EQ(page.find("http://"), page.find("http://www.w3.org")) << "the page needs nothing else";
  EXPECT_NE(page.find("refused"), std::string::npos);

  for (const char* picture :
       {"out/tokens_per_s_rank.svg", "out/tokens_per_s_rank.png", "out/memory_bytes.svg"})
    EXPECT_EQ(fs::exists(dir_ / picture), std::system("command -v gnuplot >/dev/null") == 0) << picture;

  // The second time only the changed cells are made.
  told_.clear();
  make_all(s);
  EXPECT_EQ(told_.find('['), std::string::npos) << told_;
  std::string changed = text;
  changed.replace(changed.find("12]"), 3, "6]");
  make_all(study(changed));
  EXPECT_NE(told_.find("[4/4]"), std::string::npos) << told_;
  EXPECT_EQ(told_.find("[1/4]"), std::string::npos) << told_;
}

TEST_F(StudyTest, RunsTellTheirFiguresAndTheirMistakes) {
  const Study s = study(R"(
dir = "DIR/out"
launch = "env WEFT_STUDY_RANKS={ranks}"
[[part]]
deck = "DIR/small.toml"
ranks = 1
[[part]]
deck = "DIR/small.toml"
ranks = 1
set = ["data.synthetic=false", "data.train=DIR/no_such_file.bin"]
)");
  ASSERT_EQ(s.cells.size(), 2U);
  const Study& good = s;
  const Progress progress = make_all(good);
  EXPECT_EQ(progress.done, 2U) << told_;
  const auto ran = read_result(good, good.cells[0]);
  ASSERT_TRUE(ran.has_value());
  EXPECT_GT(ran->step_s, 0);
  EXPECT_GT(ran->memory_bytes, 1e6);
  EXPECT_EQ(ran->mesh, "data 1");
  EXPECT_NE(ran->version, "");
  const auto refused = read_result(good, good.cells[1]);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, Status::refused);
  EXPECT_NE(refused->message.find("no_such_file.bin"), std::string::npos) << refused->message;
}

/// What failed is tried again, what was refused is not.
TEST_F(StudyTest, ALauncherThatIsNotThereFails) {
  const Study s = study(R"(
dir = "DIR/out"
launch = "no_such_launcher {ranks}"
[[part]]
deck = "DIR/small.toml"
ranks = 1
)");
  EXPECT_EQ(make_all(s).failed, 1U);
  EXPECT_NE(told_.find("no_such_launcher was not found"), std::string::npos) << told_;
  told_.clear();
  EXPECT_EQ(make_all(s).failed, 1U);
  EXPECT_NE(told_.find("[1/1]"), std::string::npos) << "it was not tried again";
}

/// Jobs that refused their deck are submitted again, and the study is not over before they are.
TEST_F(StudyTest, IsNotOverWhileAJobIsQueued) {
  for (const auto& [name, body] : {std::pair("sbatch", "echo 42"), std::pair("squeue", "echo PENDING")}) {
    write(name, std::string("#!/bin/sh\n") + body + "\n");
    fs::permissions(dir_ / name, fs::perms::owner_all);
  }
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", (dir_.string() + ":" + before).c_str(), 1);
  const Study s =
      study("dir = \"DIR/out\"\n[[part]]\nhow = \"slurm\"\ndeck = \"DIR/small.toml\"\nranks = 1\n");
  EXPECT_EQ(make_all(s).missing, 1U) << told_;
  for (const Status status : {Status::refused, Status::failed}) {
    Result result;
    result.key = key_of(s, s.cells[0]);
    result.status = status;
    write_result(s, s.cells[0], result);
    fs::remove(directory_of(s, s.cells[0]) + "/job");  // the job is over
    write("squeue", "#!/bin/sh\n");
    EXPECT_EQ(make_all(s).missing, 1U) << "it is submitted again\n" << told_;
    write("squeue", "#!/bin/sh\necho PENDING\n");
    EXPECT_EQ(make_all(s).missing, 1U) << "it waits\n" << told_;
  }
  ::setenv("PATH", before.c_str(), 1);
}

/// Parts whose decks differ in what their names do not say are curves of their own; those that differ in
/// their ranks are one.
TEST_F(StudyTest, PartsWithOtherSettingsAreOtherSeries) {
  const auto series = [&](const std::string& first, const std::string& second) {
    const std::string part = "[[part]]\nhow = \"simulate\"\nmachine = \"h100\"\ndeck = \"DIR/small.toml\"\n";
    const Study s = study(part + first + part + second);
    return std::pair(s.cells.front().series, s.cells.back().series);
  };
  const std::string one = "ranks = 1\nset = [\"data.seq=32\"]\n",
                    same = "ranks = 2\nset = [\"data.seq=32\"]\n",
                    other = "ranks = 1\nset = [\"data.seq=64\"]\n";
  EXPECT_EQ(series(one, same), std::pair(std::string("small, h100 (simulate, strong)"),
                                         std::string("small, h100 (simulate, strong)")));
  EXPECT_EQ(series(one, other), std::pair(std::string("small, h100 (simulate, strong)"),
                                          std::string("small, h100 (simulate, strong), part 2")));
}

/// What comes from files and decks does nothing in the programs that read the study's.
TEST_F(StudyTest, NamesAreTextForGnuplotAndForTables) {
  const Study s = study(
      "dir = \"DIR/out\"\n[[part]]\nhow = \"simulate\"\nmachine = \"h100\"\ndeck = \"DIR/small.toml\"\nranks "
      "= 1\n"
      "over = { \"run.name\" = [\"a`touch weft_pwned`'b\\\\\"] }\n");
  EXPECT_EQ(make_all(s).done, 1U) << told_;
  EXPECT_FALSE(fs::exists("weft_pwned"));
  EXPECT_NE(text_of("out/step_s.gnuplot").find("weft_pwned`''b"), std::string::npos)
      << text_of("out/step_s.gnuplot");
}

}  // namespace
}  // namespace weft::study
