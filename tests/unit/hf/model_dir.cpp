#include "unit/hf/model_dir.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/rng.hpp"
#include "ckpt/load.hpp"
#include "ckpt/save.hpp"
#include "hf/import.hpp"

namespace weft::hf::test {

Deck small_model(const std::vector<std::string>& sets) {
  return parse_deck_text(
      "[run]\nsteps = 9\n[model]\ndim = 36\nlayers = 2\nheads = 6\nkv_heads = 2\nffn = 50\nvocab = 70\n"
      "rope_theta = 10000.0\n[data]\nsynthetic = true\nseq = 24\nglobal_batch = 1\n[optimizer]\nlr = 1e-3\n",
      "small", sets);
}

model::Spec spec_of(const Deck& deck) {
  const ModelDeck& m = deck.model;
  return {m.dim, m.layers, m.heads, m.kv_heads, m.ffn, m.vocab, m.norm_eps, m.tie_embeddings};
}

ckpt::RunState run_of(const Deck& deck) {
  ckpt::RunState run;
  run.deck = print_deck(deck);
  run.model_key = model::key(spec_of(deck));
  return run;
}

std::string save_model(const Deck& deck, const std::string& checkpoints_dir, std::int64_t slab_bytes) {
  const std::vector<Unit> units = model::units(spec_of(deck));
  std::vector<std::vector<float>> memory;
  std::vector<ckpt::StateSlice> slices;
  for (const Unit& unit : units)
    for (const ckpt::Role role : ckpt::all_roles) {
      const RandomStream stream(static_cast<std::uint64_t>(role), unit.path);
      std::vector<float>& values = memory.emplace_back(static_cast<std::size_t>(unit.elements));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(stream.normal(i));
      slices.push_back({unit.path, role, DType::f32, unit.elements, 0, unit.elements,
                        reinterpret_cast<std::byte*>(values.data())});
    }
  ckpt::RunState run = run_of(deck);
  run.step = 9;
  ckpt::SaveOptions options;
  options.slab_bytes = slab_bytes;
  options.alignment = 512;
  const ckpt::SaveReport report =
      ckpt::save(checkpoints_dir, run, units, slices, ckpt::single_rank(), options);
  EXPECT_TRUE(report.ok) << report.reason;
  return report.path;
}

std::map<std::string, std::vector<float>> masters(const Deck& deck, const std::string& checkpoint) {
  std::map<std::string, std::vector<float>> values;
  for (const Unit& unit : model::units(spec_of(deck)))
    for (const Parameter& p : unit.parameters) values[p.path] = ckpt::load_parameter(checkpoint, p.path);
  return values;
}

std::string import_model(const std::string& model_dir, const std::string& checkpoints_dir) {
  const Weights weights(model_dir);
  const Deck deck = deck_of(weights);
  return import_weights(weights, run_of(deck), model::units(spec_of(deck)), checkpoints_dir).path;
}

std::map<std::string, std::string> files_in(const std::string& dir) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir))
    files[entry.path().filename().string()] = weft::test::read_file(entry.path().string());
  return files;
}

std::string error_of(const std::function<void()>& f, ExitCode code) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace weft::hf::test
