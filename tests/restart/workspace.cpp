#include "restart/workspace.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "support/small_deck.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

/// A text of 60 documents of one to four lines: about 9000 bytes, so that three dozen steps go through them
/// more than once.
std::string some_text() {
  const std::vector<std::string> words{"the ",  "ship ", "sails ", "slowly ", "over ",  "a ",
                                       "grey ", "sea, ", "while ", "rain ",   "falls. "};
  std::string text;
  std::uint32_t state = 1;
  const auto next = [&](std::uint32_t n) { return (state = state * 1664525 + 1013904223) / 65536 % n; };
  for (int document = 0; document < 60; ++document) {
    for (std::uint32_t n = 12 + next(36); n > 0; --n)
      text += words[next(static_cast<std::uint32_t>(words.size()))];
    text += "\n\n";
  }
  return text;
}

}  // namespace

void Workspace::SetUp() {
  write_file(path("text.txt"), some_text());
  const Ended tokenized = run(weft({"data", "tokenize", path("text.txt"), "--train", path("train.bin"),
                                    "--valid", path("valid.bin"), "--valid-fraction", "0.1"}));
  ASSERT_EQ(tokenized.status, 0) << tokenized.err;
  write_file(deck(), small_deck_text);
}

std::vector<std::string> Workspace::train(const std::string& run,
                                          const std::vector<std::string>& sets) const {
  std::vector<std::string> arguments{"train", deck()};
  const auto set = [&](const std::string& value) {
    arguments.emplace_back("--set");
    arguments.push_back(value);
  };
  set("run.dir=" + run_dir(run));
  set("data.synthetic=false");
  set("data.train=" + path("train.bin"));
  set("data.valid=" + path("valid.bin"));
  set("data.valid_sequences=12");
  set("data.valid_every=5");
  set("checkpoint.resume=auto");
  set("checkpoint.final=true");
  set("debug.hash_every=1");
  set("log.progress=true");
  for (const auto& value : sets) set(value);
  return arguments;
}

void Workspace::copy_checkpoints(const std::string& of, const std::string& run) const {
  fs::create_directories(run_dir(run));
  fs::copy(checkpoints(of), checkpoints(run), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

namespace {

std::vector<nlohmann::json> lines_of(const std::string& run_dir, bool saves) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(run_dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line) && !in.eof();) {
    lines.push_back(nlohmann::json::parse(line));
    if ((lines.back().at("kind") == "save") != saves) lines.pop_back();
  }
  return lines;
}

template <class Reached>
bool wait_until(double seconds, Reached reached) {
  for (const double start = seconds_now(); seconds_now() - start < seconds;) {
    if (reached()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace

std::vector<nlohmann::json> metrics(const std::string& run_dir) {
  return lines_of(run_dir, false);
}

std::vector<nlohmann::json> saves(const std::string& run_dir) {
  return lines_of(run_dir, true);
}

std::vector<std::string> curve(const std::string& run_dir, std::int64_t after) {
  std::vector<std::string> lines;
  for (const auto& line : metrics(run_dir)) {
    if (line.at("step") <= after) continue;
    nlohmann::json kept;
    for (const char* key :
         {"kind", "step", "loss", "grad_norm", "lr", "tokens", "state_hash", "bits_per_byte"})
      if (line.contains(key)) kept[key] = line.at(key);
    lines.push_back(kept.dump());
  }
  EXPECT_FALSE(lines.empty()) << run_dir << " has no curve after step " << after
                              << ": it would equal any other such";
  return lines;
}

std::vector<std::int64_t> steps(const std::string& run_dir) {
  std::vector<std::int64_t> list;
  for (const auto& line : metrics(run_dir))
    if (line.at("kind") == "train") list.push_back(line.at("step"));
  return list;
}

std::vector<std::int64_t> steps_to(std::int64_t n) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(n));
  std::iota(list.begin(), list.end(), 1);
  return list;
}

std::int64_t last_step(const std::string& run_dir) {
  const auto all = steps(run_dir);
  return all.empty() ? 0 : all.back();
}

std::map<std::string, std::string> contents(const std::string& dir) {
  std::map<std::string, std::string> files;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(dir, error))
    files[entry.path().string()] = entry.is_symlink()        ? fs::read_symlink(entry.path()).string()
                                   : entry.is_regular_file() ? read_file(entry.path().string())
                                                             : std::string("directory");
  EXPECT_FALSE(files.empty()) << dir << " has nothing in it (" << error.message()
                              << "): it would equal any other such";
  return files;
}

void flip_bit(const std::string& path, double place) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto at = static_cast<std::streamoff>(place * static_cast<double>(fs::file_size(path)));
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 4));
  ASSERT_TRUE(file.good()) << path;
}

bool wait_for_step(const std::string& run_dir, std::int64_t step, double seconds) {
  return wait_until(seconds, [&] { return last_step(run_dir) >= step; });
}

bool wait_for_save(const std::string& run_dir, std::int64_t step, double seconds) {
  return wait_until(seconds, [&] {
    const auto lines = saves(run_dir);
    return !lines.empty() && lines.back().at("step") >= step;
  });
}

}  // namespace weft::test
