// Translates between config.json of a Hugging Face Llama and the table [model] of a deck.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "deck/deck.hpp"
#include "hf/element.hpp"

namespace weft::hf {

struct Config {
  ModelDeck model;                ///< init and init_std are left as they are
  std::int64_t max_position = 0;  ///< the longest context
};

/// Reads the text of a config.json, in the spelling of any version of `transformers` (rope_theta and
/// rope_scaling, or rope_parameters). Throws Error(bad_checkpoint), with one line that begins with `name`,
/// for a model that is not Weft's Llama: one with biases, another activation, another kind of rotary
/// positions, another width of heads, another architecture, or quantized weights.
Config parse_config(std::string_view text, const std::string& name);

/// The config.json of a model whose weights are of one type, in the older spelling, which every version of
/// `transformers` reads.
std::string config_text(const Config& config, Element dtype);

/// The tables [model] and [model.rope_scaling] of a deck, as text.
std::string model_tables(const ModelDeck& model);

}  // namespace weft::hf
