// Tests that what a command makes is on storage before it has its name, and that nothing gets a name any more
// once storage has refused. Checkpoints of a run have tests of their own.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <set>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

/// A call on a file, as the library of tests/faults logs it.
struct LoggedCall {
  std::string line;  ///< "CALL NUMBER FILE", with tabs between
  std::string name, file;
};

std::string directory_of(const std::string& file) {
  return file.substr(0, file.rfind('/'));
}

/// Whether a call changes what is in its file.
bool writes(const LoggedCall& call) {
  const auto begins = [&](const char* name) { return call.name.starts_with(name); };
  return call.name == "open+create" || begins("write") || begins("pwrite") || begins("ftruncate") ||
         begins("fallocate") || begins("copy_file_range") || begins("sendfile");
}

/// Whether the call makes a name in its file's directory.
bool makes(const LoggedCall& call) {
  return call.name == "open+create" || call.name == "mkdir";
}

/// Whether `file`, or a directory that it is in, is in `names`.
bool is_below(std::string file, const std::set<std::string>& names) {
  while (!names.contains(file) && file.find('/') != std::string::npos) file = directory_of(file);
  return names.contains(file);
}

/// Follows calls, and returns a line for each thing that gets its name, or whose neighbour does, before all
/// of it is on storage; and for each directory to which a new name is not brought at last.
std::vector<std::string> problems_of(const std::vector<LoggedCall>& calls) {
  std::set<std::string> renamed;  // under their temporary names
  for (const LoggedCall& call : calls)
    if (call.name == "rename") renamed.insert(call.file);
  std::set<std::string> unsynced, with_new_names;
  std::vector<std::string> problems;
  for (const LoggedCall& call : calls) {
    if (writes(call)) unsynced.insert(call.file);
    if (makes(call)) unsynced.insert(directory_of(call.file));
    if (call.name == "fsync") {
      unsynced.erase(call.file);
      with_new_names.erase(call.file);
    }
    if (call.name != "rename") continue;
    for (const std::string& file : unsynced)
      if (is_below(file, renamed)) problems.push_back(file + " is not on storage before " + call.line);
    with_new_names.insert(directory_of(call.file));
  }
  for (const std::string& directory : with_new_names)
    problems.push_back(directory + " is not synced after it got a name");
  return problems;
}

class Durable : public Workspace {
 protected:
  /// A command, and what it makes, in the order in which it gets its name.
  struct Maker {
    std::vector<std::string> command;
    std::vector<std::string> names;
  };

  void SetUp() override {
    Workspace::SetUp();
    ASSERT_EQ(run(weft(train("run", {"run.steps=1", "optimizer.warmup=1", "data.valid_every=1"}))).status, 0);
  }
  /// The directory in which commands make things.
  std::string made() const { return path("made"); }
  std::vector<Maker> makers() const {
    return {{weft({"data", "tokenize", path("text.txt"), "--train", made() + "/train.bin", "--valid",
                   made() + "/valid.bin", "--valid-fraction", "0.1", "--tokenizer", "sentencepiece",
                   "--vocab", "280"}),
             {"train.model", "train.bin", "valid.bin"}},
            {weft({"checkpoint", "export", checkpoints("run") + "/latest", made() + "/hf", "--shard-size",
                   "100000"}),
             {"hf"}},
            {weft({"plan", deck(), "--picture", made() + "/plan.svg"}), {"plan.svg"}}};
  }
  void empty_made() const {
    fs::remove_all(made());
    fs::create_directory(made());
  }
  std::set<std::string> names_in_made() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(made())) names.insert(entry.path().filename().string());
    return names;
  }
  /// Runs the command, and returns its calls on what is in made().
  std::vector<LoggedCall> calls_of(const Maker& maker) const {
    empty_made();
    const std::string log = path("calls");
    fs::remove(log);
    EXPECT_STATUS(run(with_faults(maker.command, made(), {"WEFT_FAULTS_LOG=" + log})), 0);
    EXPECT_EQ(names_in_made(), std::set<std::string>(maker.names.begin(), maker.names.end()));
    std::vector<LoggedCall> calls;
    std::ifstream in(log);
    for (LoggedCall call; std::getline(in, call.line); calls.push_back(call)) {
      call.name = call.line.substr(0, call.line.find('\t'));
      call.file = call.line.substr(call.line.rfind('\t') + 1);
    }
    const auto renames = std::ranges::count(calls, std::string("rename"), &LoggedCall::name);
    EXPECT_EQ(static_cast<std::size_t>(renames), maker.names.size());
    return calls;
  }
};

TEST_F(Durable, FilesAreOnStorageBeforeTheirName) {
  for (const Maker& maker : makers()) {
    SCOPED_TRACE(maker.names.front());
    const std::vector<LoggedCall> calls = calls_of(maker);
    EXPECT_EQ(problems_of(calls), std::vector<std::string>{});
    EXPECT_GE(std::ranges::count_if(calls, writes), 2);
    if (maker.names.front() == "hf") {
      EXPECT_TRUE(fs::exists(made() + "/hf/model.safetensors.index.json")) << "the weights are in one file";
    }
  }
}

TEST_F(Durable, NothingGetsANameOnceStorageHasRefused) {
  for (const Maker& maker : makers()) {
    auto named = maker.names.begin();
    int refused = 0;
    for (const LoggedCall& call : calls_of(maker)) {
      if (call.name == "rename" && named != maker.names.end()) ++named;
      if (call.name != "fsync") continue;
      SCOPED_TRACE(call.line);
      ++refused;
      empty_made();
      const Ended ended = run(with_fault(maker.command, made(), "0", call.line, EIO));
      EXPECT_STATUS(ended, 6);
      const auto errors = ended.lines("weft: error:");
      ASSERT_EQ(errors.size(), 1U) << ended.err;
      EXPECT_NE(errors[0].find("(Input/output error)"), std::string::npos) << errors[0];
      EXPECT_EQ(names_in_made(), std::set<std::string>(maker.names.begin(), named));
    }
    EXPECT_GE(refused, 2) << maker.names.front();
  }
}

}  // namespace
}  // namespace weft::test
