#include "hf/config.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "deck/print.hpp"
#include "hf/json.hpp"
#include "hf/safetensors.hpp"

namespace weft::hf {
namespace {

using nlohmann::json;

/// With this limit no product of sizes leaves 63 bits. The deck has narrower bounds.
constexpr std::int64_t largest_size = std::int64_t{1} << 30;

/// Reads values of one JSON object. A key whose value is null counts as missing.
class Reader {
 public:
  Reader(const json& object, const std::string& name) : object_(object), name_(name) {}

  bool has(const char* key) const { return find(key) != nullptr; }
  const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  std::int64_t size(const char* key) const {
    const json* value = find(key);
    if (value == nullptr) fail(fmt::format("{} is missing", key));
    if (!value->is_number_integer() || *value < 1 || *value > largest_size)
      fail(
          fmt::format("{} is {}, not a number from 1 to {}", key, value->dump().substr(0, 60), largest_size));
    return value->get<std::int64_t>();
  }
  std::int64_t size(const char* key, std::int64_t otherwise) const {
    return has(key) ? size(key) : otherwise;
  }
  double number(const char* key) const {
    const json* value = find(key);
    if (value == nullptr) fail(fmt::format("{} is missing", key));
    if (!value->is_number()) fail(fmt::format("{} is {}, not a number", key, value->dump().substr(0, 60)));
    return value->get<double>();
  }
  double number(const char* key, double otherwise) const { return has(key) ? number(key) : otherwise; }
  bool flag(const char* key) const {
    const json* value = find(key);
    if (value != nullptr && !value->is_boolean()) fail(fmt::format("{} is neither true nor false", key));
    return value != nullptr && value->get<bool>();
  }
  std::string text(const char* key, const char* otherwise) const {
    const json* value = find(key);
    if (value != nullptr && !value->is_string()) fail(fmt::format("{} is not text", key));
    return value == nullptr ? otherwise : value->get<std::string>();
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ExitCode::bad_checkpoint, fmt::format("{}: {}", name_, problem));
  }

 private:
  const json& object_;
  const std::string& name_;
};

void check_architecture(const Reader& config) {
  constexpr const char* known = "LlamaForCausalLM";
  const json* names = config.find("architectures");
  const bool llama = names != nullptr && names->is_array()
                         ? std::find(names->begin(), names->end(), known) != names->end()
                         : config.text("model_type", "") == "llama";
  if (!llama) config.fail(fmt::format("the model is no {} (Weft trains no other)", known));
  for (const char* bias : {"attention_bias", "mlp_bias"})
    if (config.flag(bias)) config.fail(fmt::format("{} is true (Weft's Llama has no biases)", bias));
  if (const std::string act = config.text("hidden_act", "silu"); act != "silu")
    config.fail(fmt::format("hidden_act is {} (Weft's Llama has silu)", shown(act)));
  if (config.has("quantization_config"))
    config.fail(
        "the weights are quantized (quantization_config); name a model with bf16, f16 or f32 weights");
}

/// Reads the rotary settings: rope_parameters since transformers 5, and rope_theta and rope_scaling before
/// it.
void read_rope(const Reader& config, const std::string& name, ModelDeck& model) {
  const json none = json::object();
  const char* key = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const json* found = config.find(key);
  const json& object = found == nullptr ? none : *found;
  if (!object.is_object() ||
      std::any_of(object.begin(), object.end(), [](const json& value) { return value.is_structured(); }))
    config.fail(fmt::format("{} is not one kind of rotary positions for all layers", key));
  const Reader rope(object, name);
  model.rope_theta = rope.number("rope_theta", config.number("rope_theta", 10000));
  if (rope.number("partial_rotary_factor", config.number("partial_rotary_factor", 1)) != 1)
    config.fail("partial_rotary_factor is not 1 (Weft turns whole heads)");
  const std::string type = rope.text("rope_type", rope.text("type", "default").c_str());
  if (type == "default") return;
  if (type != "llama3")
    config.fail(fmt::format("rotary positions of kind {} (Weft has default and llama3)", shown(type)));
  model.rope_scaling.factor = rope.number("factor");
  model.rope_scaling.low_freq_factor = rope.number("low_freq_factor");
  model.rope_scaling.high_freq_factor = rope.number("high_freq_factor");
  model.rope_scaling.original_max_position = rope.size("original_max_position_embeddings");
}

}  // namespace

Config parse_config(std::string_view text, const std::string& name) {
  const json object = detail::parse_object(text, name);
  const Reader config(object, name);
  check_architecture(config);
  Config result;
  ModelDeck& m = result.model;
  m.dim = config.size("hidden_size");
  m.layers = config.size("num_hidden_layers");
  m.heads = config.size("num_attention_heads");
  m.kv_heads = config.size("num_key_value_heads", m.heads);
  m.ffn = config.size("intermediate_size");
  m.vocab = config.size("vocab_size");
  m.norm_eps = config.number("rms_norm_eps", 1e-6);
  m.tie_embeddings = config.flag("tie_word_embeddings");
  result.max_position = config.size("max_position_embeddings", 2048);
  if (m.dim % m.heads != 0)
    config.fail(fmt::format("{} heads do not divide hidden_size = {}", m.heads, m.dim));
  if (m.heads % m.kv_heads != 0)
    config.fail(fmt::format("num_key_value_heads = {} does not divide {} heads", m.kv_heads, m.heads));
  if (config.size("head_dim", m.dim / m.heads) != m.dim / m.heads)
    config.fail(fmt::format("head_dim is {} (in Weft a head is hidden_size / heads = {} wide)",
                            config.size("head_dim"), m.dim / m.heads));
  if (m.dim / m.heads % 2 != 0)
    config.fail(fmt::format("heads are {} wide (rotary positions turn pairs)", m.dim / m.heads));
  read_rope(config, name, m);
  return result;
}

std::string config_text(const Config& config, Element dtype) {
  const ModelDeck& m = config.model;
  nlohmann::ordered_json c;
  c["architectures"] = nlohmann::ordered_json::array({"LlamaForCausalLM"});
  c["model_type"] = "llama";
  c["vocab_size"] = m.vocab;
  c["hidden_size"] = m.dim;
  c["intermediate_size"] = m.ffn;
  c["num_hidden_layers"] = m.layers;
  c["num_attention_heads"] = m.heads;
  c["num_key_value_heads"] = m.kv_heads;
  c["head_dim"] = m.dim / m.heads;
  c["hidden_act"] = "silu";
  c["rms_norm_eps"] = m.norm_eps;
  c["rope_theta"] = m.rope_theta;
  c["rope_scaling"] = nullptr;
  if (const RopeScalingDeck& s = m.rope_scaling; s.factor != 1)
    c["rope_scaling"] = {{"rope_type", "llama3"},
                         {"factor", s.factor},
                         {"low_freq_factor", s.low_freq_factor},
                         {"high_freq_factor", s.high_freq_factor},
                         {"original_max_position_embeddings", s.original_max_position}};
  c["max_position_embeddings"] = config.max_position;
  c["tie_word_embeddings"] = m.tie_embeddings;
  c["attention_bias"] = false;
  c["mlp_bias"] = false;
  c["attention_dropout"] = 0.0;
  c["initializer_range"] = m.init_std;
  c["use_cache"] = true;
  c["bos_token_id"] = nullptr;  // the tokenizer has it, and a checkpoint does not know it
  c["eos_token_id"] = nullptr;
  c["torch_dtype"] = dtype == Element::f32 ? "float32" : dtype == Element::bf16 ? "bfloat16" : "float16";
  return c.dump(2) + "\n";
}

std::string model_tables(const ModelDeck& model) {
  Deck deck;
  deck.model = model;
  std::string text;
  for (const deck::Table& table : deck::tables()) {
    const bool wanted =
        table.path == "model" || (table.path == "model.rope_scaling" && model.rope_scaling.factor != 1);
    if (!wanted) continue;
    text += fmt::format("[{}]\n", table.path);
    for (const deck::Key& key : deck::keys())
      if (key.table() == table.path && !key.name().starts_with("init"))
        text += fmt::format("{} = {}\n", key.name(), deck::value_text(key, deck));
  }
  return text;
}

}  // namespace weft::hf
