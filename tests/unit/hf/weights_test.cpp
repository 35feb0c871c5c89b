// Tests directories that do not hold a whole Llama.
#include "hf/weights.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "hf/files.hpp"
#include "unit/hf/model_dir.hpp"

namespace weft::hf {
namespace {

namespace fs = std::filesystem;
using namespace test;

class WeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    export_weights(save_model(deck_, dir_ / "run"), dir_ / "one", {Element::bf16, 1 << 30});
    export_weights(dir_ / "run/step-00000009", dir_ / "many", {Element::bf16, 12'000});
  }
  /// The files of "many", in order.
  std::vector<std::string> shards() const {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files_in(dir_ / "many"))
      if (name.ends_with(".safetensors")) names.push_back(name);
    return names;
  }
  /// Writes model.safetensors anew with other tensors, whose data are zeros.
  void rewrite(const std::function<void(std::vector<Tensor>&)>& change) const {
    const std::string path = dir_ / "one/model.safetensors";
    const std::string file = weft::test::read_file(path);
    std::vector<Tensor> tensors = parse_header(file, file.size()).tensors;
    change(tensors);
    const ModelFile model = split_into_files(tensors, 1 << 30).front();
    std::ofstream(path, std::ios::binary)
        << header_text(model.tensors) << std::string(static_cast<std::size_t>(model.data_bytes), '\0');
  }
  std::string problem(const std::string& name) const {
    return error_of([&] { Weights(dir_ / name).check(model::units(spec_of(deck_))); });
  }
  static void expect(const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

  const Deck deck_ = small_model();
  const weft::test::TemporaryDirectory dir_;
};

TEST_F(WeightsTest, AnySliceReadsAsTheWhole) {
  const Weights weights(dir_ / "many");
  for (const Unit& unit : model::units(spec_of(deck_)))
    for (const Parameter& p : unit.parameters) {
      const std::int64_t n = element_count(p.shape);
      std::vector<float> whole(static_cast<std::size_t>(n)), parts(whole.size());
      weights.read(p, 0, n, whole.data());
      for (std::int64_t at = 0, step = 1; at < n; at += step, step = step * 3 % 101)
        weights.read(p, at, std::min(step, n - at), parts.data() + at);
      EXPECT_EQ(whole, parts) << p.path;
    }
}

TEST_F(WeightsTest, SaysWhatIsMissing) {
  fs::create_directory(dir_ / "empty");
  expect(problem("empty"), "is not a Hugging Face model (it has no config.json)");
  fs::copy(dir_ / "one/config.json", dir_ / "empty/config.json");
  expect(problem("empty"), "pickled weights are not read");
  const std::string second = shards().at(1);
  fs::remove(dir_ / "many/" + second);
  expect(problem("many"), second);
  rewrite([](auto& tensors) { tensors.erase(tensors.begin()); });
  expect(problem("one"), "has no tensor \"lm_head.weight\"");
}

TEST_F(WeightsTest, RefusesWhatDoesNotBelong) {
  rewrite([](auto& tensors) {
    tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {3}, 0, 12});
  });
  EXPECT_NO_THROW(Weights(dir_ / "one").check(model::units(spec_of(deck_))))
      << "older models have this table";
  rewrite([](auto& tensors) {
    tensors.push_back({"model.layers.0.self_attn.o_proj.bias", "BF16", {36}, 0, 72});
  });
  expect(problem("one"),
         "tensor \"model.layers.0.self_attn.o_proj.bias\" is none of Weft's Llama of 2 layers");
}

TEST_F(WeightsTest, RefusesOtherShapesAndTypes) {
  rewrite([](auto& tensors) { std::swap(tensors[0].shape[0], tensors[0].shape[1]); });
  expect(problem("one"), "tensor \"lm_head.weight\" is [36, 70] (config.json makes it [70, 36])");
  rewrite([](auto& tensors) {
    std::swap(tensors[0].shape[0], tensors[0].shape[1]);
    tensors[0].dtype = "I16";
  });
  expect(problem("one"), "tensor \"lm_head.weight\" is I16 (F32, BF16 and F16 are read)");
}

TEST_F(WeightsTest, IndexAndFilesAgree) {
  const std::string index = dir_ / "many/model.safetensors.index.json";
  std::string text = weft::test::read_file(index);
  const std::size_t at = text.find("00001-of");
  text.replace(at, 8, "00002-of");
  std::ofstream(index) << text;
  const std::string first = dir_ / "many/" + shards().at(0), second = shards().at(1);
  expect(problem("many"), ", not in " + second);
  fs::copy(first, dir_ / "many/" + second, fs::copy_options::overwrite_existing);
  expect(problem("many"), ", too");
}

/// Ranks compare it, because each may read a copy of its own host's.
TEST_F(WeightsTest, TheFingerprintTellsWeightsApart) {
  const std::string path = dir_ / "one/model.safetensors", whole = weft::test::read_file(path);
  const Header header = parse_header(whole, whole.size());
  const std::string bytes = whole.substr(static_cast<std::size_t>(header.data_begin));
  const auto fingerprint = [&](const std::vector<Tensor>& tensors, const std::string& data) {
    std::ofstream(path, std::ios::binary) << header_text(tensors) << data;
    return Weights(dir_ / "one").fingerprint();
  };
  const std::uint64_t own = fingerprint(header.tensors, bytes);
  fs::copy(dir_ / "one", dir_ / "copy");
  EXPECT_EQ(Weights(dir_ / "copy").fingerprint(), own);
  EXPECT_EQ(Weights(dir_ / "many").fingerprint(), own) << "the same tensors in several files";
  std::set<std::uint64_t> all{own};
  std::size_t changes = 0;
  const auto expect_another = [&](const std::vector<Tensor>& tensors, const std::string& data,
                                  const std::string& what) {
    EXPECT_TRUE(all.insert(fingerprint(tensors, data)).second) << what;
    ++changes;
  };
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    const Tensor& tensor = header.tensors[i];
    std::vector<Tensor> changed = header.tensors;
    changed[i].name += "x";
    expect_another(changed, bytes, tensor.name + ": name");
    changed = header.tensors;
    changed[i].dtype = "F16";  // as long as BF16
    expect_another(changed, bytes, tensor.name + ": type");
    changed = header.tensors;
    changed[i].shape.push_back(1);
    expect_another(changed, bytes, tensor.name + ": shape");
    for (const std::int64_t at : {std::int64_t{0}, std::min<std::int64_t>(tensor.bytes, 4096) - 1}) {
      std::string other = bytes;
      char& byte = other[static_cast<std::size_t>(tensor.begin + at)];
      byte = static_cast<char>(byte ^ 1);
      expect_another(header.tensors, other, fmt::format("{}: byte {}", tensor.name, at));
    }
  }
  EXPECT_EQ(changes, 5 * 21U) << "two layers have 18 tensors, and embedding and head three";
}

TEST_F(WeightsTest, TruncatedFilesAreNamed) {
  fs::resize_file(dir_ / "one/model.safetensors", fs::file_size(dir_ / "one/model.safetensors") - 1);
  expect(problem("one"), "one/model.safetensors");
}

}  // namespace
}  // namespace weft::hf
