// Decides which tensors stand in which file of a model, as `transformers` lays them out: model.safetensors,
// or model-00001-of-0000N.safetensors and so on with model.safetensors.index.json.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hf/safetensors.hpp"

namespace weft::hf {

inline constexpr const char* single_name = "model.safetensors";
inline constexpr const char* index_name = "model.safetensors.index.json";
inline constexpr const char* config_name = "config.json";

struct ModelFile {
  std::string name;
  std::vector<Tensor> tensors;  ///< sorted by name, which is their order in the file
  std::int64_t data_bytes = 0;
};

/// Distributes tensors, in the order given, over files of at most `file_bytes` bytes of data; a larger tensor
/// gets a file of its own. Sets each tensor's first byte.
std::vector<ModelFile> split_into_files(const std::vector<Tensor>& tensors, std::int64_t file_bytes);

/// The text of model.safetensors.index.json.
std::string index_text(const std::vector<ModelFile>& files);

/// The file of each tensor by its name, from the text of an index. Throws Error(bad_checkpoint), with `name`,
/// when it is damaged, or names a file outside its own directory.
std::map<std::string, std::string> parse_index(std::string_view text, const std::string& name);

}  // namespace weft::hf
