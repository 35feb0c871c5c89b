#include "hf/files.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "hf/json.hpp"

namespace weft::hf {
namespace {

bool is_plain_name(const std::string& file) {
  return !file.empty() && file != "." && file != ".." &&
         file.find_first_of(std::string("/\0", 2)) == file.npos;
}

}  // namespace

std::vector<ModelFile> split_into_files(const std::vector<Tensor>& tensors, std::int64_t file_bytes) {
  std::vector<ModelFile> files(1);
  for (const Tensor& t : tensors) {
    if (!files.back().tensors.empty() && files.back().data_bytes + t.bytes > file_bytes) files.emplace_back();
    files.back().tensors.push_back(t);
    files.back().data_bytes += t.bytes;
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    ModelFile& file = files[i];
    file.name = files.size() == 1 ? single_name
                                  : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
    std::sort(file.tensors.begin(), file.tensors.end(),
              [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
    std::int64_t at = 0;
    for (Tensor& t : file.tensors) {
      t.begin = at;
      at += t.bytes;
    }
  }
  return files;
}

std::string index_text(const std::vector<ModelFile>& files) {
  nlohmann::json map = nlohmann::json::object();
  std::int64_t total = 0;
  for (const ModelFile& file : files) {
    for (const Tensor& t : file.tensors) map[t.name] = file.name;
    total += file.data_bytes;
  }
  return nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n";
}

std::map<std::string, std::string> parse_index(std::string_view text, const std::string& name) {
  const nlohmann::json index = detail::parse_object(text, name);
  const auto map = index.find("weight_map");
  const auto fail = [&](const std::string& why) {
    throw Error(ExitCode::bad_checkpoint, fmt::format("{}: {}", name, why));
  };
  if (map == index.end() || !map->is_object()) fail("no weight_map, which says where the tensors are");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !is_plain_name(file.get<std::string>()))
      fail(fmt::format("tensor {} is not in a file of this directory", shown(tensor)));
    files.emplace(tensor, file.get<std::string>());
  }
  return files;
}

}  // namespace weft::hf
