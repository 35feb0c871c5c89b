// config.json of a Hugging Face Llama, and the deck's [model] that says the same.
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

/// Reads the text of a config.json, in the spelling of any `transformers` (rope_theta and rope_scaling, or
/// rope_parameters). Throws Error(bad_checkpoint), one line that begins with `name`, for a model that is not
/// Weft's Llama: biases, another activation, kind of rotary positions, width of heads, architecture, or
/// quantized weights.
Config parse_config(std::string_view text, const std::string& name);

/// The config.json of a model with weights of one type, in the older spelling, which every `transformers`
/// reads.
std::string config_text(const Config& config, Element dtype);

/// The tables [model] and [model.rope_scaling] of a deck.
std::string model_tables(const ModelDeck& model);

}  // namespace weft::hf
