// Tests the way out to Hugging Face's format and back: the bytes stay the same.
#include <gtest/gtest.h>

#include <malloc.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ckpt/load.hpp"
#include "ckpt/verify.hpp"
#include "hf/import.hpp"
#include "hf/safetensors.hpp"
#include "unit/hf/model_dir.hpp"

namespace weft::hf {
namespace {

namespace fs = std::filesystem;
using namespace test;
using weft::test::TemporaryDirectory;

/// Options that make several files.
ExportOptions options(Element dtype) {
  return {dtype, 12'000};
}

class RoundTrip : public ::testing::TestWithParam<bool> {
 protected:
  const Deck deck_ = small_model({GetParam() ? "model.tie_embeddings=true" : "model.rope_scaling.factor=4"});
  const TemporaryDirectory dir_;
  const std::string checkpoint_ = save_model(deck_, dir_ / "run");
};

TEST_P(RoundTrip, MastersComeBack) {
  const ExportReport report = export_weights(checkpoint_, dir_ / "hf", options(Element::f32));
  EXPECT_EQ(report.parameters, parameter_count(deck_.model));
  EXPECT_EQ(report.bytes, 4 * report.parameters);
  EXPECT_GT(report.files, 3);
  const std::string back = import_model(dir_ / "hf", dir_ / "back");
  EXPECT_TRUE(masters(deck_, back) == masters(deck_, checkpoint_));
  EXPECT_TRUE(ckpt::verify(back).empty());
  EXPECT_EQ(parse_deck_text(ckpt::load_run_state(back).deck, "deck").model, deck_.model);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_ / "back"), {}), 2)
      << "the step and latest, no leftovers";
}

TEST_P(RoundTrip, FilesComeBack) {
  for (const Element dtype : {Element::f32, Element::bf16, Element::f16}) {
    const std::string name(name_of(dtype));
    export_weights(checkpoint_, dir_ / ("out" + name), options(dtype));
    const std::string back = import_model(dir_ / ("out" + name), dir_ / ("in" + name));
    export_weights(back, dir_ / ("again" + name), options(dtype));
    EXPECT_TRUE(files_in(dir_ / ("out" + name)) == files_in(dir_ / ("again" + name))) << name;
  }
}

TEST_P(RoundTrip, FilesDoNotDependOnSlabs) {
  export_weights(checkpoint_, dir_ / "a", options(Element::bf16));
  export_weights(save_model(deck_, dir_ / "other", 1 << 20), dir_ / "b", options(Element::bf16));
  EXPECT_TRUE(files_in(dir_ / "a") == files_in(dir_ / "b"));
}

INSTANTIATE_TEST_SUITE_P(Models, RoundTrip, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "tied" : "untied"; });

/// Row 2 i + j of a head is row i + j D / 2 there. This test finds that in another way than the code.
TEST(Export, RowsStandAsTransformersWantsThem) {
  const TemporaryDirectory dir;
  const Deck deck = small_model();
  const std::string checkpoint = save_model(deck, dir / "run");
  export_weights(checkpoint, dir / "hf", {Element::f32, 1 << 30});
  const std::string file = weft::test::read_file(dir / "hf/model.safetensors");
  const Header header = parse_header(file, file.size());
  const auto ours = masters(deck, checkpoint);
  const auto value = [&](const std::string& name, std::int64_t element) {
    for (const Tensor& t : header.tensors)
      if (t.name == name) {
        float x = 0;
        std::memcpy(&x, file.data() + header.data_begin + t.begin + 4 * element, 4);
        return x;
      }
    ADD_FAILURE() << name;
    return 0.0F;
  };
  const std::int64_t dim = 36, width = 6;
  for (std::int64_t head = 0; head < 2; ++head)
    for (std::int64_t i = 0; i < width / 2; ++i)
      for (std::int64_t j = 0; j < 2; ++j)
        for (std::int64_t c = 0; c < dim; ++c) {
          const auto here = static_cast<std::size_t>((head * width + 2 * i + j) * dim + c);
          const std::int64_t there = (head * width + i + j * width / 2) * dim + c;
          EXPECT_EQ(value("model.layers.1.self_attn.k_proj.weight", there),
                    ours.at("layers.1.attn.wk")[here]);
          EXPECT_EQ(value("model.layers.0.self_attn.q_proj.weight", there),
                    ours.at("layers.0.attn.wq")[here]);
        }
  for (const std::int64_t e : {0, 37, 399})
    EXPECT_EQ(value("model.layers.0.self_attn.v_proj.weight", e),
              ours.at("layers.0.attn.wv")[static_cast<std::size_t>(e)]);
}

TEST(Export, NamesADirectoryOnlyWhenItIsWhole) {
  const TemporaryDirectory dir;
  const std::string checkpoint = save_model(small_model(), dir / "run");
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  const std::string making = dir / fmt::format("out.weft.{}.tmp", host.data());
  fs::create_directories(making + "/left");  // an interrupted export left it
  std::ofstream(making + "/left/over") << "x";
  fs::create_directories(dir / "out.weft.elsewhere.tmp/left");  // another host's may be under way
  export_weights(checkpoint, dir / "out/", options(Element::f32));
  EXPECT_FALSE(fs::exists(making));
  EXPECT_TRUE(fs::exists(dir / "out.weft.elsewhere.tmp/left"));
  EXPECT_FALSE(fs::exists(dir / "out/left"));
  EXPECT_NE(
      error_of([&] { export_weights(checkpoint, dir / "out", options(Element::f32)); }, ExitCode::bad_input)
          .find("is there already"),
      std::string::npos);
  // Of an export from a damaged shard nothing stays.
  const std::string damaged = import_model(dir / "out", dir / "damaged"), shard = damaged + "/shard-00000.h5";
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(fs::file_size(shard) / 2));
  file.write("damage", 6);
  file.close();
  EXPECT_FALSE(ckpt::verify(damaged).empty());
  EXPECT_NE(error_of([&] { export_weights(damaged, dir / "bad", options(Element::f32)); }).find("damaged"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(dir / "bad"));
  EXPECT_FALSE(fs::exists(dir / fmt::format("bad.weft.{}.tmp", host.data())));
}

/// A directory that cannot be made is not the checkpoint's fault.
TEST(Export, WhatCannotBeWrittenIsTheMachines) {
  const TemporaryDirectory dir;
  const std::string checkpoint = save_model(small_model(), dir / "run");
  std::ofstream(dir / "file") << "x";
  try {
    export_weights(checkpoint, dir / "file/out", options(Element::f32));
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::environment) << e.what();
    EXPECT_NE(std::string(e.what()).find("/file (Not a directory)"), std::string::npos) << e.what();
  }
}

TEST(Export, RefusesWeightsOutOfRange) {
  const TemporaryDirectory dir;
  const Deck deck = small_model();
  export_weights(save_model(deck, dir / "run"), dir / "hf", {Element::f32, 1 << 30});
  std::string file = weft::test::read_file(dir / "hf/model.safetensors");
  const float large = 70000;
  std::memcpy(file.data() + parse_header(file, file.size()).data_begin, &large, 4);
  std::ofstream(dir / "hf/model.safetensors", std::ios::binary) << file;
  const std::string checkpoint = import_model(dir / "hf", dir / "large");
  const std::string message =
      error_of([&] { export_weights(checkpoint, dir / "half", options(Element::f16)); });
  EXPECT_NE(message.find("a weight of 70000 in head.weight is out of the range of F16; use --dtype bf16"),
            std::string::npos)
      << message;
  EXPECT_EQ(export_weights(checkpoint, dir / "bf16", options(Element::bf16)).parameters,
            parameter_count(deck.model));
}

/// A checkpoint has the deck that `weft sample` needs, whose sequences are short.
TEST(Import, TheLongestContextIsWhatAnExportIsTold) {
  const TemporaryDirectory dir;
  export_weights(save_model(small_model(), dir / "run"), dir / "hf", {Element::bf16, 1 << 30, 131'072});
  EXPECT_EQ(Weights(dir / "hf").config().max_position, 131'072);
  EXPECT_EQ(exported_max_position(deck_of(Weights(dir / "hf"))), 2048);
  const std::string back = import_model(dir / "hf", dir / "back");
  export_weights(back, dir / "short", {Element::bf16});
  EXPECT_EQ(Weights(dir / "short").config().max_position, 2048);
  export_weights(back, dir / "same", {Element::bf16, 1 << 30, 131'072});
  EXPECT_TRUE(files_in(dir / "same") == files_in(dir / "hf"));
  EXPECT_EQ(exported_max_position(small_model()), 24);
  EXPECT_EQ(exported_max_position(small_model({"model.rope_scaling.factor=4"})), 4 * 8192);
}

TEST(Import, LeavesAStepThatIsThere) {
  const TemporaryDirectory dir;
  const Deck deck = small_model();
  export_weights(save_model(deck, dir / "run"), dir / "hf", options(Element::f32));
  import_model(dir / "hf", dir / "in");
  EXPECT_NE(
      error_of([&] { import_model(dir / "hf", dir / "in"); }, ExitCode::bad_input).find("is there already"),
      std::string::npos);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// A line of /proc/self/status, in bytes.
std::int64_t status_of(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  return 0;
}
/// Largest resident memory since the last reset, in bytes.
std::int64_t peak_memory() {
  return status_of("VmHWM");
}

TEST(Export, MemoryIsBounded) {
  const TemporaryDirectory dir;
  const Deck deck = small_model({"model.dim=192", "model.ffn=600", "model.vocab=2000", "model.layers=4"});
  const std::int64_t weights = 4 * parameter_count(deck.model);
  ASSERT_GT(weights, 9 << 20);
  const std::string checkpoint = save_model(deck, dir / "run", 128 << 10);
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // this resets the peak
  const std::int64_t before = peak_memory();
  ASSERT_LT(before - status_of("VmRSS"), 1 << 20) << "an earlier peak would hide this one";
  export_weights(checkpoint, dir / "hf", {Element::bf16, 2 << 20});
  EXPECT_LT(peak_memory() - before, 4 << 20) << "of " << weights;
  const std::vector<char> large(static_cast<std::size_t>(weights), 'x');
  EXPECT_GT(peak_memory() - before, 4 << 20) << "the peak must be able to grow by " << large.size();
}
#endif

}  // namespace
}  // namespace weft::hf
