// Tests config.json in the spellings of `transformers` 4 and 5, and models that are not Weft's Llama.
#include "hf/config.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "unit/hf/model_dir.hpp"

namespace weft::hf {
namespace {

using nlohmann::json;
using test::error_of;

/// The config.json of Llama 3.1 8B, as published.
const json& published() {
  static const json config = json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 128000, "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096,
    "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
    "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256})");
  return config;
}

Config parse(const json& config) {
  return parse_config(config.dump(), "config.json");
}
json with(const char* key, const json& value) {
  json config = published();
  config[key] = value;
  return config;
}

TEST(HuggingFaceConfig, OlderSpelling) {
  const Config config = parse(published());
  ModelDeck expected;
  expected.dim = 4096;
  expected.layers = 32;
  expected.heads = 32;
  expected.kv_heads = 8;
  expected.ffn = 14336;
  expected.vocab = 128256;
  expected.rope_theta = 500000;
  expected.rope_scaling = {8, 1, 4, 8192};
  expected.norm_eps = 1e-5;
  EXPECT_EQ(config.model, expected);
  EXPECT_EQ(config.max_position, 131072);
  json older = with("rope_scaling", nullptr);
  EXPECT_EQ(parse(older).model.rope_scaling.factor, 1);
  older.erase("num_key_value_heads");
  older.erase("rope_theta");
  older["tie_word_embeddings"] = true;
  EXPECT_EQ(parse(older).model.kv_heads, 32);
  EXPECT_EQ(parse(older).model.rope_theta, 10000);
  EXPECT_TRUE(parse(older).model.tie_embeddings);
  json with_type = published();  // rope_type was called type before
  with_type["rope_scaling"].erase("rope_type");
  with_type["rope_scaling"]["type"] = "llama3";
  EXPECT_EQ(parse(with_type).model, expected);
}

TEST(HuggingFaceConfig, NewerSpelling) {
  json newer = published();
  newer.erase("rope_theta");
  newer["rope_parameters"] = newer["rope_scaling"];
  newer.erase("rope_scaling");
  newer["rope_parameters"]["rope_theta"] = 500000.0;
  EXPECT_EQ(parse(newer).model, parse(published()).model);
  newer["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  EXPECT_EQ(parse(newer).model.rope_theta, 1e6);
  EXPECT_EQ(parse(newer).model.rope_scaling.factor, 1);
}

TEST(HuggingFaceConfig, WrittenAndReadBack) {
  for (const bool scaled : {false, true}) {
    Config config = parse(published());
    config.model.norm_eps = 0.1 + 0.2e-7;
    config.model.tie_embeddings = scaled;
    if (!scaled) config.model.rope_scaling = {};
    const Config back = parse_config(config_text(config, Element::bf16), "config.json");
    EXPECT_EQ(back.model, config.model);
    EXPECT_EQ(back.max_position, config.max_position);
  }
}

TEST(HuggingFaceConfig, AsTablesOfADeck) {
  const Config config = parse(published());
  const std::string text = model_tables(config.model) +
                           "[run]\nsteps = 1\n[data]\nsynthetic = true\nseq = 8\nglobal_batch = 1\n"
                           "[optimizer]\nlr = 1e-3\n";
  EXPECT_EQ(parse_deck_text(text, "tables").model, config.model);
  ModelDeck plain = config.model;
  plain.rope_scaling = {};
  EXPECT_EQ(model_tables(plain).find("rope_scaling"), std::string::npos);
}

TEST(HuggingFaceConfig, RefusesOtherModels) {
  struct Bad {
    const char* key;
    json value;
    const char* message;
  };
  const std::vector<Bad> all{
      {"architectures", json::array({"MistralForCausalLM"}), "no LlamaForCausalLM"},
      {"architectures", json::array(), "no LlamaForCausalLM"},
      {"attention_bias", true, "attention_bias is true"},
      {"mlp_bias", true, "mlp_bias is true"},
      {"mlp_bias", 1, "mlp_bias is neither"},
      {"hidden_act", "gelu", "hidden_act is \"gelu\""},
      {"head_dim", 64, "head_dim is 64 (in Weft a head is hidden_size / heads = 128 wide)"},
      {"num_attention_heads", 31, "31 heads do not divide"},
      {"num_attention_heads", 4096, "heads are 1 wide"},
      {"num_key_value_heads", 5, "does not divide"},
      {"quantization_config", {{"bits", 4}}, "quantized"},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor"},
      {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}}, "kind \"yarn\""},
      {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}, "kind \"linear\""},
      {"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}, "low_freq_factor is missing"},
      {"rope_scaling", "llama3", "not one kind"},
      {"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}, "not one kind"},
      {"hidden_size", nullptr, "hidden_size is missing"},
      {"hidden_size", "4096", "hidden_size is \"4096\""},
      {"num_hidden_layers", -1, "num_hidden_layers is -1"},
      {"num_hidden_layers", 1.5, "num_hidden_layers is 1.5"},
      {"vocab_size", 18446744073709551615U, "vocab_size is"},
      {"rms_norm_eps", "small", "rms_norm_eps is \"small\""}};
  for (const Bad& bad : all) {
    const std::string message = error_of([&] { parse(with(bad.key, bad.value)); });
    EXPECT_TRUE(message.starts_with("config.json: ")) << message;
    EXPECT_NE(message.find(bad.message), std::string::npos) << message;
  }
  for (const char* text : {"", "[]", "{", "nul"})
    EXPECT_FALSE(error_of([&] { parse_config(text, "config.json"); }).empty()) << text;
}

/// Such a value is parsed without recursion, but the message would print it with recursion.
TEST(HuggingFaceConfig, RefusesDeepNesting) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const std::string text = R"({"architectures":["LlamaForCausalLM"],"hidden_size":)" + deep + "}";
  EXPECT_EQ(error_of([&] { parse_config(text, "config.json"); }), "config.json: it nests too deeply");
}

}  // namespace
}  // namespace weft::hf
