// Tests studies: the cells that a file stands for, the mistakes in it, and that figures are made once and
// kept.
#include "study/study.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "deck/deck.hpp"
#include "job/run_lock.hpp"
#include "machine/profile.hpp"
#include "study/cell.hpp"
#include "study/child.hpp"
#include "study/queue.hpp"
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
  /// Writes a launcher that starts nothing: a script, in which $run is the run's directory. `start` is the
  /// study's line that names it.
  void launcher(const std::string& body) const {
    write("launcher.sh",
          "for word; do case $word in run.dir=*) run=${word#run.dir=} ;; esac; done\nmkdir -p $run\n" + body);
  }
  static constexpr const char* start = "launch = \"sh DIR/launcher.sh {ranks}\"\n";
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
  EXPECT_EQ(problem("[[part]]\ndeck = \"DIR/small.toml\"\nranks = [0]\n"),
            "study.toml:3: ranks: it is not a whole number from 1 to 16777216")
      << "and not that the list is empty";
  EXPECT_EQ(problem("[[part]]\ndeck = \"DIR/small.toml\"\nranks = []\n"),
            "study.toml:3: ranks: an empty list");
  EXPECT_EQ(
      problem(part + "machine = \"h100\"\n"),
      "study.toml:4: machine: only simulated cells have a machine that is not here (how = \"simulate\")");
  EXPECT_EQ(problem(part + "over = { data.batch = [] }\n"), "study.toml:4: over.data.batch: an empty list");
  EXPECT_EQ(problem(part + "over = { run.seed = [1, 2], data.batch = [] }\n"),
            "study.toml:4: over.data.batch: an empty list")
      << "once, whatever the lists before it have";
  EXPECT_EQ(problem(part + "how = \"simulate\"\n"),
            "study.toml:1: machine: missing (a simulated part names its machines)");
  EXPECT_EQ(
      problem(part + "over = { \"data.batches\" = [1] }\n"),
      "study.toml:1: part 1: --set: data.batches: unknown key (`weft deck --schema` lists all); did you "
      "mean 'data.batch'?");
  EXPECT_EQ(problem(part + part + "set = [\"run.steps=0\", \"model.dim=0\"]\n")
                .find("study.toml:4: part 2: --set: "),
            0U);
  EXPECT_NE(problem(part + part + "set = [\"run.steps=0\", \"model.dim=0\"]\n")
                .find("\nstudy.toml:4: part 2: --set: "),
            std::string::npos)
      << "each line of several has the place";
  EXPECT_EQ(
      problem("[[part]]\ndeck = \"DIR/small.toml\"\nranks = [7, 8]\nscaling = \"weak\"\n"),
      "study.toml:1: part 1: scaling: data.global_batch = 12 of 7 ranks cannot grow to 8 ranks in whole "
      "sequences");
  for (const char* name : {"", ".", "..", "a/b"})
    EXPECT_EQ(problem(fmt::format("name = \"{}\"\n", name) + part),
              "study.toml:1: name: it names a directory (no '/', not empty, not '.' or '..')");
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
  std::size_t simulated = 0;
  for (const nlohmann::json& row : table) {
    if (row["status"] != "done") continue;
    ++simulated;
    constexpr double tokens = 12 * 24;  // of a step of all ranks
    EXPECT_NEAR(
        row["tokens_per_s_rank"].get<double>() * row["ranks"].get<int>() * row["step_s"].get<double>(),
        tokens, 1e-9 * tokens)
        << row;
  }
  EXPECT_GE(simulated, 2U);
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

/// A second study beside the first one is kept out by the run's lock. The files are the first one's, and tell
/// nothing of the second. When the run is over, its files do not keep figures from the next run.
TEST_F(StudyTest, RunsTellNothingOfOneThatIsStillGoing) {
  const Study s = study(
      "dir = \"DIR/out\"\nlaunch = \"env WEFT_STUDY_RANKS={ranks}\"\n"
      "[[part]]\ndeck = \"DIR/small.toml\"\nranks = 1\n");
  ASSERT_EQ(s.cells.size(), 1U);
  const std::string run = "out/" + s.cells[0].name + "/run";
  const std::string deck = "what another run trains\n",
                    metrics = "{\"kind\": \"train\", \"step\": 1, \"step_s\": 1e6}\n";
  fs::create_directories(dir_ / run);
  write(run + "/deck.toml", deck);
  write(run + "/metrics.jsonl", metrics);
  {
    const job::RunLock going(path(run), [](const std::string& why) { ADD_FAILURE() << why; });
    make_all(s);
    const auto second = read_result(s, s.cells[0]);
    ASSERT_TRUE(second.has_value());
    EXPECT_EQ(second->status, Status::refused);
    EXPECT_NE(second->message.find("another run writes here"), std::string::npos) << second->message;
    EXPECT_EQ(second->mesh, "");
    EXPECT_EQ(text_of(run + "/deck.toml"), deck);
    EXPECT_EQ(text_of(run + "/metrics.jsonl"), metrics);
  }
  EXPECT_EQ(make_all(s).done, 1U) << told_;
  const auto next = read_result(s, s.cells[0]);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->status, Status::done) << next->message;
  EXPECT_LT(next->step_s, 1e5);
  EXPECT_EQ(next->mesh, "data 1");
}

/// What a launcher leaves, in new files in the place of an earlier run's, as `weft train` does it.
constexpr const char* leave_a_deck = "cp --remove-destination $run/../deck.toml $run/deck.toml\n";
constexpr const char* leave_a_step =
    "rm -f $run/metrics.jsonl\n"
    R"(echo '{"kind": "train", "step_s": 1.5, "tokens_per_s": 10}' >$run/metrics.jsonl)";

/// What an earlier run of the cell left says nothing of a run that leaves nothing, whatever its code.
TEST_F(StudyTest, FiguresAreNeverThoseOfAnEarlierRun) {
  const auto with_seed = [&](int seed) {
    return study(
        fmt::format("dir = \"DIR/out\"\n{}[[part]]\ndeck = \"DIR/small.toml\"\nranks = 1\n"
                    "set = [\"run.seed={}\"]\n",
                    start, seed));
  };
  for (const int code : {0, 1, 2}) {
    SCOPED_TRACE(code);
    launcher(leave_a_deck + std::string(leave_a_step));
    const Study before = with_seed(10 + code), after = with_seed(20 + code);
    EXPECT_EQ(make_all(before).done, 1U) << told_;
    const auto good = read_result(before, before.cells[0]);
    ASSERT_TRUE(good.has_value());
    EXPECT_EQ(good->status, Status::done);
    EXPECT_EQ(good->step_s, 1.5);
    EXPECT_EQ(good->mesh, "data 1");
    launcher(fmt::format("exit {}", code));
    make_all(after);
    const auto empty = read_result(after, after.cells[0]);
    ASSERT_TRUE(empty.has_value());
    EXPECT_EQ(empty->status, code == 2 ? Status::refused : Status::failed) << empty->message;
    EXPECT_TRUE(std::isnan(empty->step_s)) << empty->step_s;
    EXPECT_EQ(empty->mesh, "");
    if (code == 0) {
      EXPECT_NE(empty->message.find("sh ended with 0, but "), std::string::npos) << empty->message;
    }
  }
}

/// The others have their figures, and all are in the tables.
TEST_F(StudyTest, ARunThatLeavesNonsenseCostsItsOwnCell) {
  launcher(leave_a_deck + std::string("test $1 = 2 || echo nonsense >$run/deck.toml\n") + leave_a_step);
  const Study s = study(std::string("dir = \"DIR/out\"\n") + start +
                        "[[part]]\ndeck = \"DIR/small.toml\"\nranks = [1, 2, 3]\n");
  const Progress progress = make_all(s);
  EXPECT_EQ(progress.failed, 2U) << told_;
  EXPECT_EQ(progress.done, 1U) << told_;
  const nlohmann::json table = nlohmann::json::parse(text_of("out/table.json"));
  ASSERT_EQ(table.size(), 3U);
  for (const std::size_t bad : {0, 2}) {
    EXPECT_EQ(table[bad]["status"], "failed");
    EXPECT_NE(table[bad]["message"].get<std::string>().find("run/deck.toml"), std::string::npos)
        << table[bad]["message"];
  }
  EXPECT_EQ(table[1]["status"], "done");
}

/// The metrics of a run have the tokens of all ranks.
TEST_F(StudyTest, TokensAreThoseOfARank) {
  launcher(leave_a_step);
  const Study s = study(std::string("dir = \"DIR/out\"\n") + start +
                        "[[part]]\ndeck = \"DIR/small.toml\"\nranks = [1, 4]\n");
  ASSERT_EQ(s.cells.size(), 2U);
  EXPECT_EQ(run(s, s.cells[0], WEFT_PROGRAM).tokens_per_s, 10);
  EXPECT_EQ(run(s, s.cells[1], WEFT_PROGRAM).tokens_per_s, 2.5);
}

/// Where there are four steps or fewer, the first two count, too. Validations never do.
TEST_F(StudyTest, FiguresAreMediansWithoutTheFirstSteps) {
  constexpr std::array seconds{100.0, 90.0, 1.0, 2.0, 3.0, 4.0}, medians{100.0, 95.0, 90.0, 46.0, 2.0, 2.5};
  const Study s =
      study(std::string("dir = \"DIR/out\"\n") + start + "[[part]]\ndeck = \"DIR/small.toml\"\nranks = 1\n");
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    for (const bool pipe : {true, false}) {
      const auto line = [&](const char* kind, double x) {
        nlohmann::json values{{"kind", kind},
                              {"step_s", x},
                              {"tokens_per_s", 16 * x},
                              {"mfu", x / 128},
                              {"exposed_comm_s", 5 * x},
                              {"rss_bytes", 1024 * x}};
        if (pipe) values["exposed_pipe_s"] = 2 * x;
        return values.dump() + "\n";
      };
      std::string lines;
      for (std::size_t step = 0; step <= i; ++step)
        lines += line("train", seconds[step]) + line("valid", 1e6);
      launcher("rm -f $run/metrics.jsonl\ncat >$run/metrics.jsonl <<'END'\n" + lines + "END\n");
      const Result result = run(s, s.cells[0], WEFT_PROGRAM);
      SCOPED_TRACE(testing::Message() << i + 1 << " steps, " << (pipe ? "in a pipe" : "without a pipe"));
      const double x = medians[i];
      EXPECT_EQ(result.step_s, x) << result.message;
      EXPECT_EQ(result.tokens_per_s, 16 * x);
      EXPECT_EQ(result.mfu, x / 128);
      EXPECT_EQ(result.memory_bytes, 1024 * x);
      EXPECT_EQ(result.exposed_s, (pipe ? 3 : 5) * x) << "without the time that the pipe is idle";
      if (pipe) {
        EXPECT_EQ(result.idle_s, 2 * x);
      } else {
        EXPECT_TRUE(std::isnan(result.idle_s)) << result.idle_s;
      }
    }
  }
}

/// What a cell depends on makes another key, and so figures that are made anew. What only says where they go
/// and how they are called does not.
TEST_F(StudyTest, AKeyIsOfAllThatFiguresDependOn) {
  machine::Profile machine = default_profile(machine::DefaultProfile::host);
  const auto write_machine = [&](double rate) {
    machine.compute.matmul_f32 = rate;
    write("machine.toml", print_profile(machine));
  };
  const std::string deck = test::small_deck_text;
  write_machine(1e11);
  Study s;
  s.launch = "mpirun -n {ranks}";
  std::set<std::string> keys;
  std::size_t made = 0;
  for (const How how : {How::run, How::slurm, How::simulate}) {
    SCOPED_TRACE(name_of(how));
    const Cell cell{"name", "series", how, path("small.toml"), {"schedule.profile=" + path("machine.toml")},
                    2};
    const std::string key = key_of(s, cell);
    const auto is_new = [&](const Study& study, const Cell& other, const char* what) {
      ++made;
      EXPECT_TRUE(keys.insert(key_of(study, other)).second) << what;
    };
    is_new(s, cell, "how");
    Cell other = cell;
    other.ranks = 3;
    is_new(s, other, "ranks");
    other = cell;
    other.sets.emplace_back("optimizer.lr=2e-2");
    is_new(s, other, "a key");
    write("small.toml", std::regex_replace(deck, std::regex("seed = 7"), "seed = 8"));
    is_new(s, cell, "the deck's text");
    write("small.toml", deck);
    write_machine(2e11);
    is_new(s, cell, "the machine's numbers, under the same name");
    write_machine(1e11);
    Study launched = s;
    launched.launch = "srun -n {ranks}";
    if (how == How::simulate) {
      EXPECT_EQ(key_of(launched, cell), key) << "nothing is launched";
    } else {
      is_new(launched, cell, "launch");
    }

    Study elsewhere = s;
    elsewhere.name = "other";
    elsewhere.dir = "other";
    elsewhere.sbatch = {"--time=5"};
    elsewhere.cells = {cell, cell};
    other = cell;
    other.name = other.series = "other";
    EXPECT_EQ(key_of(elsewhere, other), key);
  }
  EXPECT_EQ(made, 17U);
}

TEST_F(StudyTest, ALogThatCannotBeWrittenIsNoProgramThatIsNotThere) {
  const std::vector<std::string> words{"sh", "-c", "echo out; echo err >&2; exit 3"};
  EXPECT_EQ(run_child(words, path("both.txt")), 3);
  EXPECT_EQ(text_of("both.txt"), "out\nerr\n");
  EXPECT_EQ(run_child(words, path("out.txt"), path("err.txt")), 3);
  EXPECT_EQ(text_of("out.txt") + text_of("err.txt"), "out\nerr\n");
  EXPECT_EQ(run_child({"no_such_program"}, path("out.txt")), 127);
  EXPECT_EQ(text_of("out.txt"), "");
  const std::string nowhere = path("none/log.txt");
  const auto problem = [&](const std::string& log, const std::string& errors) -> std::string {
    try {
      return std::to_string(run_child(words, log, errors));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::environment);
      return e.what();
    }
  };
  for (const std::string& told : {problem(nowhere, ""), problem(path("out.txt"), nowhere)})
    EXPECT_EQ(told, "cannot write " + nowhere + " (No such file or directory)");
}

/// open() then gives the log the number at which the child gets its own stdin.
TEST_F(StudyTest, AChildHasItsOutputWhereStdinIsClosed) {
  const int stdin_of_test = ::dup(STDIN_FILENO);
  ::close(STDIN_FILENO);
  const std::vector<std::string> words{"sh", "-c", "echo out; echo err >&2"};
  const int both = run_child(words, path("both.txt")),
            separate = run_child(words, path("out.txt"), path("err.txt"));
  if (stdin_of_test >= 0) {
    ::dup2(stdin_of_test, STDIN_FILENO);
    ::close(stdin_of_test);
  }
  EXPECT_EQ(both, 0);
  EXPECT_EQ(text_of("both.txt"), "out\nerr\n");
  EXPECT_EQ(separate, 0);
  EXPECT_EQ(text_of("out.txt") + text_of("err.txt"), "out\nerr\n");
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

/// A Slurm of two scripts, whose jobs all have the number 42. They wait for as long as `queue` says so.
class SlurmStudyTest : public StudyTest {
 protected:
  void SetUp() override {
    StudyTest::SetUp();
    script("sbatch", "echo >>DIR/submitted\necho 42");
    script("squeue", "! grep -q \"^${3#--jobs=}$\" DIR/queue || echo PENDING");
    queue("");
    path_ = std::getenv("PATH");
    ::setenv("PATH", (dir_.string() + ":" + path_).c_str(), 1);
    s_ = study(
        "dir = \"DIR/out\"\n[[part]]\nhow = \"slurm\"\ndeck = \"DIR/small.toml\"\nranks = 1\n"
        "over = { run.seed = [1, 2] }\n");
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    StudyTest::TearDown();
  }

  void script(const std::string& name, const std::string& body) const {
    write(name, "#!/bin/sh\n" + std::regex_replace(body, std::regex("DIR"), dir_.string()) + "\n");
    fs::permissions(dir_ / name, fs::perms::owner_all);
  }
  /// Says which jobs there still are: "42_0\n42_1\n".
  void queue(const std::string& jobs) const { write("queue", jobs); }
  /// What the job of a cell leaves behind.
  void leave(std::size_t cell, Status status, const std::string& message = "") const {
    Result result;
    result.key = key_of(s_, s_.cells[cell]);
    result.status = status;
    result.message = message;
    write_result(s_, s_.cells[cell], result);
  }
  /// How often jobs were submitted.
  std::size_t submitted() const { return fs::exists(path("submitted")) ? text_of("submitted").size() : 0; }
  Progress call() {
    told_.clear();
    return make_all(s_);
  }

  Study s_;
  std::string path_;
};

TEST_F(SlurmStudyTest, IsNotOverWhileAJobIsQueued) {
  EXPECT_EQ(call().missing, 2U) << told_;
  queue("42_0\n42_1\n");
  EXPECT_EQ(call().missing, 2U) << told_;
  queue("42_1\n");
  leave(0, Status::done);
  EXPECT_EQ(call().missing, 1U) << told_;
  queue("");
  leave(1, Status::done);
  EXPECT_EQ(call().done, 2U) << told_;
  EXPECT_EQ(submitted(), 1U) << "both cells are members of one array, and were submitted once";
}

/// A short job may be over before sbatch has returned. What an earlier job left is no result of it.
TEST_F(SlurmStudyTest, AResultThatIsThereAtOnceCounts) {
  call();
  std::string move;
  for (const std::size_t cell : {0, 1}) {
    const std::string result = directory_of(s_, s_.cells[cell]) + "/result.json",
                      kept = path(fmt::format("{}.json", cell));
    leave(cell, Status::done);
    fs::rename(result, kept);
    leave(cell, Status::failed);
    move += fmt::format("mv '{}' '{}'\n", kept, result);
  }
  EXPECT_EQ(call().failed, 2U) << told_;
  script("sbatch", move + "echo >>DIR/submitted\necho 42");
  EXPECT_EQ(call().missing, 2U) << told_;
  EXPECT_EQ(call().done, 2U) << told_;
  EXPECT_EQ(submitted(), 2U);
}

/// Where sbatch takes no job, the figures that a cell has are the last ones that it will have.
TEST_F(SlurmStudyTest, WhatIsNotSubmittedKeepsItsFigures) {
  call();
  leave(0, Status::done);  // nothing is there of the other cell but its job
  const std::string result = "out/" + s_.cells[0].name + "/result.json", figures = text_of(result);
  ASSERT_NE(figures, "");
  const std::string taken = text_of("sbatch");
  const auto problem = [&]() -> std::string {
    try {
      make_all(s_, /*again=*/true);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::environment);
      return e.what();
    }
    return "";
  };
  const std::pair<const char*, const char*> refusals[]{
      {"echo 'no such partition' >&2; exit 1", "sbatch ended with 1, and tells no job: no such partition"},
      {"echo nonsense", "sbatch ended with 0, and tells no job: nonsense"},
      {"exit 127", "sbatch was not found (cells with how = \"slurm\" need Slurm)"}};
  for (const auto& [body, message] : refusals) {
    SCOPED_TRACE(body);
    script("sbatch", body);
    EXPECT_EQ(problem(), message);
    EXPECT_EQ(text_of(result), figures);
    for (const std::size_t cell : {0, 1}) EXPECT_EQ(job_of(s_, s_.cells[cell]), fmt::format("42_{}", cell));
    EXPECT_FALSE(fs::exists(path("out/" + s_.cells[1].name + "/result.json")));
  }
  write("sbatch", taken);
  make_all(s_, /*again=*/true);
  EXPECT_EQ(submitted(), 2U);
  EXPECT_FALSE(fs::exists(path(result))) << "the job that was taken will leave another one";
  EXPECT_FALSE(fs::exists(path(result + ".old")));
}

/// The call that finds what a job has left tells it, with its code, and only the next one submits it again.
TEST_F(SlurmStudyTest, TellsWhyAJobFailedBeforeItSubmitsItAgain) {
  call();
  for (const Status status : {Status::failed, Status::refused}) {
    const std::size_t before = submitted();
    leave(0, status, "the disk is full");
    leave(1, Status::done);
    const Progress progress = call();
    EXPECT_EQ(progress.failed, status == Status::failed ? 1U : 0U) << told_;
    EXPECT_EQ(progress.missing, 0U) << told_;
    EXPECT_NE(told_.find(fmt::format("[1/2] {}: {} (the disk is full)", s_.cells[0].name, name_of(status))),
              std::string::npos)
        << told_;
    EXPECT_NE(text_of("out/table.csv").find("the disk is full"), std::string::npos);
    EXPECT_EQ(submitted(), before);
    EXPECT_EQ(call().missing, 1U) << told_;
    EXPECT_EQ(submitted(), before + 1);
  }
}

TEST_F(SlurmStudyTest, AJobThatLeavesNothingHasFailed) {
  call();
  leave(1, Status::done);
  EXPECT_EQ(call().failed, 1U) << told_;
  EXPECT_NE(told_.find("job 42_0 ended without a result"), std::string::npos) << told_;
  EXPECT_EQ(submitted(), 1U);
  EXPECT_EQ(call().missing, 1U) << told_;
  EXPECT_EQ(submitted(), 2U);
}

/// Who calls for as long as jobs are under way submits nothing again meanwhile, or there would always be one.
TEST_F(SlurmStudyTest, WhatIsRefusedWaitsForTheOtherJobs) {
  call();
  queue("42_1\n");
  leave(0, Status::refused);
  for (int i = 0; i < 3; ++i) {
    const Progress progress = call();
    EXPECT_EQ(progress.done, 1U) << told_;
    EXPECT_EQ(progress.missing, 1U) << told_;
  }
  queue("");
  leave(1, Status::refused);
  EXPECT_EQ(call().done, 2U) << told_;
  EXPECT_EQ(submitted(), 1U);
  EXPECT_EQ(call().missing, 2U) << told_;
  EXPECT_EQ(submitted(), 2U);
}

/// Where Slurm does not answer, the jobs may still be there. Only the word that it knows no such job says
/// that they are not.
TEST_F(SlurmStudyTest, AJobIsThereUntilSlurmSaysThatItIsNot) {
  call();
  for (const char* silence :
       {"echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1",
        "exit 1", "exit 127", "kill -9 $$"}) {
    SCOPED_TRACE(silence);
    script("squeue", silence);
    EXPECT_EQ(call().missing, 2U) << told_;
    for (const Cell& cell : s_.cells)
      EXPECT_NE(told_.find(cell.name + ": its job is queued or runs"), std::string::npos) << told_;
    EXPECT_EQ(submitted(), 1U);
  }
  script("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  EXPECT_EQ(call().failed, 2U) << told_;
  EXPECT_EQ(submitted(), 1U);
}

// A build with sanitizers has the program of another build beside this test, or none.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// A script hears at once of a run that failed, even while jobs are under way.
TEST_F(SlurmStudyTest, TheExitCodeIsThatOfTheWorstCell) {
  const auto code = [&] { return run_child({WEFT_PROGRAM, "study", path("study.toml")}, path("log.txt")); };
  const std::array<std::optional<Status>, 4> states{Status::done, Status::refused, Status::failed,
                                                    std::nullopt};  // nothing: its job is queued
  for (const auto& first : states)
    for (const auto& second : states) {
      fs::remove_all(dir_ / "out");
      queue("");
      call();
      std::string queued;
      if (first) leave(0, *first);
      if (second) leave(1, *second);
      if (!first) queued += "42_0\n";
      if (!second) queued += "42_1\n";
      queue(queued);
      const bool failed = first == Status::failed || second == Status::failed;
      EXPECT_EQ(code(), failed ? 1 : queued.empty() ? 0 : 75) << text_of("log.txt");
    }
  launcher("exit 1");
  study(std::string("dir = \"DIR/out\"\n") + start +
        "[[part]]\ndeck = \"DIR/small.toml\"\nranks = 1\n"
        "[[part]]\nhow = \"slurm\"\ndeck = \"DIR/small.toml\"\nranks = 1\n");
  EXPECT_EQ(code(), 1) << text_of("log.txt");
  EXPECT_NE(text_of("log.txt").find("job 42: 1 cell"), std::string::npos) << "the other one is under way";
}
#endif

/// A deck that was mended is submitted at once.
TEST_F(SlurmStudyTest, AnotherDeckIsAnotherCell) {
  call();
  leave(0, Status::failed);
  leave(1, Status::done);
  s_.cells[0].sets.push_back("run.seed=3");
  EXPECT_EQ(call().missing, 1U) << told_;
  EXPECT_EQ(submitted(), 2U);
}

/// The share is that of the machine's peak for the parameters' type.
TEST_F(StudyTest, ASimulatedShareOfThePeakIsThatOfTheParametersType) {
  const Study s = study(R"(
dir = "DIR/out"
[[part]]
how = "simulate"
machine = "h100"
deck = "DIR/small.toml"
ranks = [1, 2]
over = { "precision.params" = ["f32", "bf16"] }
)");
  EXPECT_EQ(make_all(s).done, 4U) << told_;
  const machine::Compute compute = machine::shipped_machine("h100").value().compute;
  for (const Cell& cell : s.cells) {
    const Deck deck = parse_deck(cell.deck, cell.sets);
    const ModelDeck& m = deck.model;
    const auto flops_per_token = static_cast<double>(6 * (parameter_count(m) - m.vocab * m.dim) +
                                                     12 * m.layers * m.dim * deck.data.seq);
    const double peak = deck.precision.params == DType::bf16 ? compute.peak_bf16 : compute.peak_f32;
    const auto result = read_result(s, cell);
    ASSERT_TRUE(result.has_value()) << cell.name;
    EXPECT_GT(result->mfu, 0) << cell.name;
    EXPECT_DOUBLE_EQ(result->mfu, result->tokens_per_s * flops_per_token / peak) << cell.name;
  }
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
