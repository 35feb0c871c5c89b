#include "hf/weights.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "hf/files.hpp"
#include "hf/names.hpp"
#include "io/named_path.hpp"

namespace weft::hf {
namespace {

namespace fs = std::filesystem;
using io::File;

/// How many bytes are read and converted at a time.
constexpr std::int64_t block_bytes = 1 << 20;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ExitCode::bad_checkpoint, message);
}

std::string read_small(const std::string& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (!error && bytes > static_cast<std::uintmax_t>(max_header_bytes))
    fail(fmt::format("{}: {} bytes (at most {} are read)", path, bytes, max_header_bytes));
  return io::read_text(path);
}

/// Whether the tensor is a table that follows from the configuration, which some files hold beside the
/// weights.
bool is_table(const std::string& tensor) {
  return tensor.ends_with(".rotary_emb.inv_freq");
}

}  // namespace

bool is_model(const std::string& dir) {
  return io::is_there(dir + "/" + config_name);
}

Weights::Weights(const std::string& dir) : dir_(dir) {
  const std::string config = dir + "/" + config_name;
  WEFT_VALIDATE(io::is_there(dir), "there is no {}; name a directory that `save_pretrained` made", dir);
  if (!io::is_there(config))
    fail(
        fmt::format("{} is not a Hugging Face model (it has no {}); name a directory that `save_pretrained` "
                    "made",
                    dir, config_name));
  config_ = parse_config(read_small(config), config);
  if (io::is_there(dir + "/" + single_name)) {
    open(single_name);
    return;
  }
  const std::string index = dir + "/" + index_name;
  if (!io::is_there(index))
    fail(
        fmt::format("{} has neither {} nor {} (pickled weights are not read); save it again with "
                    "`save_pretrained`",
                    dir, single_name, index_name));
  const auto files = parse_index(read_small(index), index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : files)
    if (names.insert(file).second) open(file);
  for (const auto& [tensor, file] : files)
    if (place(tensor).file_name != file)
      fail(fmt::format("{}: tensor {} is in {}, not in {}", index, shown(tensor), place(tensor).file_name,
                       file));
}

void Weights::open(const std::string& name) {
  const std::string path = dir_ + "/" + name;
  files_.push_back(std::make_unique<File>(path, File::Open::read));
  const File& file = *files_.back();
  const auto bytes = static_cast<std::uint64_t>(file.size());
  std::string begin(std::min<std::uint64_t>(length_bytes, bytes), '\0');
  file.read_at(begin.data(), begin.size(), 0);
  const std::size_t length = begin.size() + static_cast<std::size_t>(header_length(begin, bytes, path));
  begin.resize(length);
  file.read_at(begin.data(), begin.size(), 0);
  Header header = parse_header(begin, bytes, path);
  for (Tensor& tensor : header.tensors) {
    const std::string key = tensor.name;
    if (!places_.emplace(key, Place{std::move(tensor), &file, name, header.data_begin}).second)
      fail(fmt::format("{}: tensor {} is in {}, too", path, shown(key), place(key).file_name));
  }
}

const Weights::Place& Weights::place(const std::string& tensor) const {
  const auto found = places_.find(tensor);
  if (found == places_.end()) fail(fmt::format("{} has no tensor {}", dir_, shown(tensor)));
  return found->second;
}

void Weights::check(const std::vector<Unit>& units) const {
  for (const Unit& unit : units)
    for (const Parameter& p : unit.parameters) {
      const Place& at = place(tensor_name(p.path));
      const Shape out_in = out_in_shape(p);
      const std::vector<std::int64_t> shape(out_in.begin(), out_in.end());
      if (at.tensor.shape != shape)
        fail(fmt::format("{}/{}: tensor {} is {} (config.json makes it {})", dir_, at.file_name,
                         shown(at.tensor.name), shown(at.tensor.shape), shown(shape)));
      if (!element_from(at.tensor.dtype))
        fail(fmt::format("{}/{}: tensor {} is {} (F32, BF16 and F16 are read)", dir_, at.file_name,
                         shown(at.tensor.name), at.tensor.dtype));
    }
  check_known(units);
}

std::uint64_t Weights::fingerprint() const {
  constexpr std::int64_t sample_bytes = 4096;
  std::uint64_t hash = 0;
  std::vector<std::byte> sample;
  for (const auto& [name, at] : places_) {
    hash = hash_text(fmt::format("{} {} {}", name, at.tensor.dtype, fmt::join(at.tensor.shape, " ")), hash);
    sample.resize(static_cast<std::size_t>(std::min(at.tensor.bytes, sample_bytes)));
    at.file->read_at(sample.data(), sample.size(), at.data_begin + at.tensor.begin);
    hash = hash_bytes(sample.data(), sample.size(), hash);
  }
  return hash;
}

/// Throws for a tensor that has no place in Weft's model, because it would change what the others mean.
void Weights::check_known(const std::vector<Unit>& units) const {
  std::set<std::string> known;
  for (const Unit& unit : units)
    for (const Parameter& p : unit.parameters) known.insert(tensor_name(p.path));
  // The embedding under a second name.
  if (config_.model.tie_embeddings) known.insert(tensor_name("head.weight"));
  for (const auto& [name, at] : places_)
    if (!known.contains(name) && !is_table(name))
      fail(fmt::format("{}/{}: tensor {} is none of Weft's Llama of {} layers", dir_, at.file_name,
                       shown(name), config_.model.layers));
}

void Weights::read(const Parameter& parameter, std::int64_t begin, std::int64_t count, float* out) const {
  const Place& at = place(tensor_name(parameter.path));
  if (parameter.in_first) {
    read_turned(parameter, at, begin, count, out);
    return;
  }
  std::vector<Run> runs{{begin, 0, count}};
  if (is_rotated(parameter.path))
    runs = rotated_runs(RowOrder::weft, config_.model.dim / config_.model.heads, parameter.shape[1], begin,
                        count);
  for (const Run& run : runs) read_run(at, run.from, run.count, out + run.at);
}

/// Reads `count` elements of a tensor as they follow each other in its file.
void Weights::read_run(const Place& at, std::int64_t from, std::int64_t count, float* out) {
  const Element type = *element_from(at.tensor.dtype);
  std::vector<std::byte> block;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t n = std::min(count - done, block_bytes / size_of(type));
    block.resize(static_cast<std::size_t>(n * size_of(type)));
    at.file->read_at(block.data(), block.size(),
                     at.data_begin + at.tensor.begin + (from + done) * size_of(type));
    to_f32(type, block.data(), n, out + done);
    done += n;
  }
}

/// Reads elements of a parameter [in, out], whose file has [out, in]: of each row of the file what the
/// elements need of it.
void Weights::read_turned(const Parameter& parameter, const Place& at, std::int64_t begin, std::int64_t count,
                          float* out) {
  const std::int64_t in = parameter.shape[0], outputs = parameter.shape[1];
  std::vector<float> row;
  for (std::int64_t output = 0; output < outputs; ++output) {
    const auto [first, last] = rows_of_column(begin, begin + count, outputs, output);
    row.resize(static_cast<std::size_t>(last - first));
    read_run(at, output * in + first, last - first, row.data());
    for (std::int64_t i = first; i < last; ++i)
      out[i * outputs + output - begin] = row[static_cast<std::size_t>(i - first)];
  }
}

void Weights::load(const std::vector<Unit>& units, std::span<const ckpt::StateSlice> slices) const {
  for (const ckpt::StateSlice& slice : slices) {
    WEFT_EXPECT(slice.role == ckpt::Role::master && slice.dtype == DType::f32);
    const auto unit =
        std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.path == slice.unit; });
    WEFT_EXPECT(unit != units.end());
    for (const Parameter& p : unit->parameters) {
      const std::int64_t begin = std::max(slice.begin, p.offset);
      const std::int64_t end = std::min(slice.begin + slice.count, p.offset + element_count(p.shape));
      if (begin < end)
        read(p, begin - p.offset, end - begin, reinterpret_cast<float*>(slice.data) + (begin - slice.begin));
    }
  }
}

}  // namespace weft::hf
