// Tests with models that `transformers` saved: Weft computes their logits, and gives back the bytes that it
// was given.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "ckpt/load.hpp"
#include "compile/programs.hpp"
#include "hf/export.hpp"
#include "hf/import.hpp"
#include "hf/names.hpp"
#include "hf/safetensors.hpp"
#include "support/golden.hpp"
#include "support/kokkos_environment.hpp"
#include "support/temporary_directory.hpp"
#include "train/checkpointing.hpp"
#include "unit/model/one_rank.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using test::OneRank;

/// The tolerance of model_test.cpp.
constexpr double tolerance = 2e-6;

struct Saved {
  const char* name;
  hf::Element dtype;
};

class HuggingFace : public ::testing::TestWithParam<Saved> {
 protected:
  HuggingFace()
      : weights_(fmt::format("{}/tests/golden/hugging_face/{}", WEFT_SOURCE_DIR, GetParam().name)),
        deck_(hf::deck_of(weights_)),
        units_(model::units(compile::spec_of(deck_))) {
    deck_.data.seq = 27;
  }

  std::string imported() const {
    ckpt::RunState run;
    run.deck = print_deck(deck_);
    run.model_key = train::model_key(deck_);
    return hf::import_weights(weights_, run, units_, directory_ / "imported").path;
  }

  enum class Rows { as_imported, as_saved };
  /// The distance |actual - expected| / |expected| of the logits, with the rows of wq and wk in Weft's order,
  /// or left in that of `transformers`.
  double distance(const std::string& checkpoint, Rows rows) {
    OneRank weft(deck_, OneRank::Program::logits);
    for (const Unit& unit : units_)
      for (const Parameter& p : unit.parameters) {
        std::vector<float> values = ckpt::load_parameter(checkpoint, p.path);
        if (rows == Rows::as_saved && hf::is_rotated(p.path)) values = saved_order(values, p.shape[1]);
        weft.set_parameter(p.path, values);
      }
    weft.publish();
    const test::GoldenFile file(WEFT_SOURCE_DIR "/tests/golden/hugging_face.h5");
    const std::string name = GetParam().name;
    weft.run(file.i32(name + "/tokens"));
    const std::vector<float> actual = weft.logits(), expected = file.f32(name + "/logits");
    EXPECT_EQ(actual.size(), expected.size());
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(actual[i] - expected[i], 2);
      norm += std::pow(static_cast<double>(expected[i]), 2);
    }
    return std::sqrt(difference / norm);
  }

  std::vector<float> saved_order(const std::vector<float>& values, std::int64_t columns) const {
    std::vector<float> saved(values.size());
    for (const hf::Run& run :
         hf::rotated_runs(hf::RowOrder::transformers, deck_.model.dim / deck_.model.heads, columns, 0,
                          static_cast<std::int64_t>(values.size())))
      std::copy_n(values.begin() + run.from, run.count, saved.begin() + run.at);
    return saved;
  }

  test::TemporaryDirectory directory_;
  hf::Weights weights_;
  Deck deck_;
  std::vector<Unit> units_;
};

/// The bytes of each tensor in all safetensors files of a directory.
std::map<std::string, std::string> tensors_of(const std::string& dir) {
  std::map<std::string, std::string> tensors;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string bytes = test::read_file(entry.path().string());
    const hf::Header header = hf::parse_header(bytes, bytes.size());
    for (const hf::Tensor& t : header.tensors)
      tensors[t.name] = t.dtype + hf::shown(t.shape) +
                        bytes.substr(static_cast<std::size_t>(header.data_begin + t.begin),
                                     static_cast<std::size_t>(t.bytes));
  }
  return tensors;
}

TEST_P(HuggingFace, LogitsOfImportedWeights) {
  EXPECT_LT(distance(imported(), Rows::as_imported), tolerance);
}

TEST_P(HuggingFace, LogitsNeedTheRightOrderOfRows) {
  EXPECT_GT(distance(imported(), Rows::as_saved), 1e-3);
}

TEST_P(HuggingFace, ExportGivesTheSameBytes) {
  const std::string out = directory_ / "exported";
  hf::ExportOptions options;
  options.dtype = GetParam().dtype;
  options.file_bytes = 30'000;
  hf::export_weights(imported(), out, options);
  const auto exported = tensors_of(out), saved = tensors_of(weights_.dir());
  EXPECT_FALSE(saved.empty());
  EXPECT_EQ(exported.size(), saved.size());
  for (const auto& [name, bytes] : saved)
    EXPECT_TRUE(exported.contains(name) && exported.at(name) == bytes) << name;
}

INSTANTIATE_TEST_SUITE_P(Models, HuggingFace,
                         ::testing::Values(Saved{"plain", hf::Element::f32}, Saved{"tied", hf::Element::bf16},
                                           Saved{"half", hf::Element::f16}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft
