#include "ckpt/load.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <iterator>
#include <map>

#include "base/check.hpp"
#include "base/log.hpp"
#include "ckpt/directory.hpp"
#include "ckpt/fetch.hpp"
#include "ckpt/publish.hpp"
#include "ckpt/shard_reader.hpp"
#include "ckpt/slices_file.hpp"
#include "ckpt/stored_files.hpp"
#include "io/file.hpp"

namespace weft::ckpt {

namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Mismatch(message);
}

std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

/// Parses lines "key = value".
std::map<std::string, std::string> keys_of(std::string_view text) {
  std::map<std::string, std::string> keys;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (trimmed(line).empty()) continue;
    const auto equals = std::min(line.find('='), line.size());
    const std::string_view value = line.substr(std::min(equals + 1, line.size()));
    keys.emplace(trimmed(line.substr(0, equals)), trimmed(value));
  }
  return keys;
}

/// The place where the checkpoint keeps a parameter.
struct Stored {
  int unit;
  const Parameter* parameter;
};
using StoredByPath = std::map<std::string, Stored>;

StoredByPath stored_parameters(const Manifest& manifest) {
  StoredByPath stored;
  for (std::size_t u = 0; u < manifest.units.size(); ++u) {
    for (const Parameter& p : manifest.units[u].parameters)
      stored.emplace(p.path, Stored{static_cast<int>(u), &p});
  }
  return stored;
}

void check_parameters(const Manifest& manifest, const StoredByPath& stored, const std::vector<Unit>& units) {
  const std::string name = io::base_name(manifest.dir);
  std::size_t wanted = 0;
  for (const Unit& unit : units) {
    for (const Parameter& p : unit.parameters) {
      const auto found = stored.find(p.path);
      if (found == stored.end())
        fail(fmt::format("{} is of another model (it has no parameter {})", name, p.path));
      const Shape there = out_in_shape(*found->second.parameter), here = out_in_shape(p);
      if (there != here) {
        fail(fmt::format("{} is of another model ({} is {} there and {} here)", name, p.path, text_of(there),
                         text_of(here)));
      }
      ++wanted;
    }
  }
  if (wanted != stored.size()) {
    fail(fmt::format("{} is of another model (it has {} parameters, this one {})", name, stored.size(),
                     wanted));
  }
}

const Unit& unit_named(const std::vector<Unit>& units, const std::string& path) {
  const auto found = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.path == path; });
  if (found == units.end()) fail(fmt::format("no unit {} in this model", path));
  return *found;
}

/// The elements of a slice that older formats store in another order ([out, in] instead of [in, out]) and
/// that have no memory of their own. They are collected, and put together.
struct Turned {
  const StateSlice* slice;
  std::int64_t at;  ///< the first of them in the slice
  std::vector<std::byte> bytes;
};

/// Elements [from, to) of a matrix [rows, columns], which come from one that is stored as [columns, rows].
class TurnedMatrix {
 public:
  TurnedMatrix(const Shape& shape, std::int64_t from, std::int64_t to, std::byte* out, DType dtype)
      : rows_(shape[0]), columns_(shape[1]), from_(from), to_(to), out_(out), size_(size_of(dtype)) {}

  /// Takes elements [at, at + count) of the stored matrix.
  void take(std::int64_t at, std::int64_t count, const std::byte* data) const {
    for (std::int64_t i = at; i < at + count;) {
      const std::int64_t column = i / rows_, first = i % rows_;
      const std::int64_t n = std::min(rows_ - first, at + count - i);
      const auto [begin, end] = rows_of_column(from_, to_, columns_, column);
      for (std::int64_t row = std::max(begin, first); row < std::min(end, first + n); ++row)
        std::memcpy(out_ + static_cast<std::size_t>(row * columns_ + column - from_) * size_,
                    data + static_cast<std::size_t>(column * rows_ + row - at) * size_, size_);
      i += n;
    }
  }

 private:
  std::int64_t rows_, columns_, from_, to_;
  std::byte* out_;
  std::size_t size_;
};

/// Adds what fills the slice: a request for each parameter that it touches, joined where both sides go on
/// without a gap.
void add_requests(const StateSlice& slice, const Unit& unit, const StoredByPath& stored, const Put& put,
                  std::vector<Request>& requests, std::deque<Turned>& turned) {
  const std::int64_t end = slice.begin + slice.count;
  const auto size = static_cast<std::int64_t>(size_of(slice.dtype));
  const std::size_t first_of_slice = requests.size();
  std::int64_t reached = 0;  // the element of the slice that the requests so far end at
  for (const Parameter& p : unit.parameters) {
    const std::int64_t from = std::max(slice.begin, p.offset);
    const std::int64_t to = std::min(end, p.offset + element_count(p.shape));
    if (from >= to) continue;
    const Stored& source = stored.at(p.path);
    const std::int64_t begin = source.parameter->offset + from - p.offset;
    const std::int64_t at = from - slice.begin;
    if (source.parameter->in_first != p.in_first) {
      std::byte* out = slice.data + at * size;
      if (slice.data == nullptr) {
        turned.push_back({&slice, at, std::vector<std::byte>(static_cast<std::size_t>((to - from) * size))});
        out = turned.back().bytes.data();
      }
      const TurnedMatrix matrix(p.shape, from - p.offset, to - p.offset, out, slice.dtype);
      requests.push_back({slice.role, source.unit, slice.dtype, source.parameter->offset,
                          element_count(p.shape), nullptr,
                          [matrix](std::int64_t part, std::int64_t count, const std::byte* data) {
                            matrix.take(part, count, data);
                          }});
      continue;
    }
    if (requests.size() > first_of_slice && at == reached) {
      Request& last = requests.back();
      if (last.unit == source.unit && last.begin + last.count == begin) {
        last.count += to - from;
        reached += to - from;
        continue;
      }
    }
    Request request{slice.role, source.unit, slice.dtype, begin, to - from, nullptr, {}};
    if (slice.data != nullptr)
      request.out = slice.data + at * size;
    else
      request.put = [&slice, &put, at](std::int64_t part, std::int64_t count, const std::byte* data) {
        put(slice, at + part, count, data);
      };
    requests.push_back(std::move(request));
    reached = at + to - from;
  }
}

std::vector<Request> requests_of(const Manifest& manifest, const std::vector<Unit>& units,
                                 std::span<const StateSlice> slices, const Put& put,
                                 std::deque<Turned>& turned) {
  const StoredByPath stored = stored_parameters(manifest);
  check_parameters(manifest, stored, units);
  std::vector<Request> requests;
  for (const StateSlice& slice : slices) {
    if (slice.count == 0) continue;
    const Unit& unit = unit_named(units, slice.unit);
    WEFT_VALIDATE(slice.begin >= 0 && slice.begin + slice.count <= unit.elements,
                  "a slice [{}, {}) of unit {} is outside of its {} elements", slice.begin,
                  slice.begin + slice.count, unit.path, unit.elements);
    add_requests(slice, unit, stored, put, requests, turned);
  }
  return requests;
}

}  // namespace

Found find_checkpoints(const std::string& checkpoints_dir) {
  Found found;
  for (const auto& entry : detail::scan(checkpoints_dir, detail::Look::at_manifest)) {
    switch (entry.condition) {
      case detail::Condition::whole:
        found.checkpoints.push_back({checkpoints_dir + "/" + entry.name, entry.run.origin});
        break;
      case detail::Condition::damaged: found.damaged.push_back(entry.problem); break;
      case detail::Condition::unreadable: throw io::Unreadable(entry.problem);
    }
  }
  return found;
}

std::optional<std::string> find_latest(const std::string& checkpoints_dir) {
  const Found found = find_checkpoints(checkpoints_dir);
  for (const std::string& problem : found.damaged) log::warn("a checkpoint is passed over: {}", problem);
  for (const Found::Checkpoint& checkpoint : found.checkpoints) {
    Manifest manifest = read_manifest(checkpoint.path);
    const std::string problem = look_at_files(manifest, single_rank());
    if (problem.empty()) return checkpoint.path;
    log::warn("a checkpoint is passed over: {}", problem);
  }
  return std::nullopt;
}

bool holds_checkpoints(const std::string& checkpoints_dir) {
  return !detail::checkpoint_names(checkpoints_dir).empty();
}

std::string set_aside(const std::string& dir) {
  const std::filesystem::path path(dir);
  return path.parent_path() /
         detail::set_aside(path.parent_path(), path.filename(), detail::Condition::damaged);
}

std::string give_name_back(const std::string& dir) {
  if (!dir.ends_with(detail::replaced_suffix)) return dir;
  const std::filesystem::path path(dir);
  return path.parent_path() / detail::give_name_back(path.parent_path(), path.filename());
}

RunState load_run_state(const std::string& dir) {
  return read_manifest(dir).run;
}

void check_model(const Manifest& manifest, std::string_view model_key) {
  auto there = keys_of(manifest.run.model_key);
  auto here = keys_of(model_key);
  for (const auto& [key, value] : there) here.try_emplace(key, "not set");
  for (const auto& [key, value] : here) {
    const auto found = there.find(key);
    const std::string other = found == there.end() ? "not set" : found->second;
    if (other != value) {
      fail(fmt::format(
          "{} is of another model ({} is {} there and {} here); name a checkpoint of this model, or use "
          "another run directory",
          manifest.dir, key, other, value));
    }
  }
}

void load(const Manifest& manifest, const std::vector<Unit>& units, std::span<const StateSlice> slices,
          const Hooks& hooks, const Put& put) {
  std::optional<Fetcher> fetcher;
  std::deque<Turned> turned;
  std::exception_ptr problem;
  try {
    fetcher.emplace(manifest, requests_of(manifest, units, slices, put, turned));
  } catch (const std::exception&) {
    problem = std::current_exception();
  }
  detail::leave_together(hooks, problem);
  detail::for_each_shard(manifest, hooks, [&](const Shard& shard) { fetcher->take(shard); });
  fetcher->finish();
  for (const Turned& t : turned)
    put(*t.slice, t.at, static_cast<std::int64_t>(t.bytes.size() / size_of(t.slice->dtype)), t.bytes.data());
}

void load(const Manifest& manifest, const std::vector<Unit>& units, std::span<const StateSlice> slices,
          const Put& put) {
  load(manifest, units, slices, single_rank(), put);
}

void load(const std::string& dir, const std::vector<Unit>& units, std::span<const StateSlice> slices) {
  load(read_manifest(dir), units, slices);
}

namespace {

/// How many parameters of the unit a run of `elements` touches at most.
std::int64_t touched(const Unit& unit, std::int64_t elements) {
  std::int64_t most = 0;
  for (auto first = unit.parameters.begin(); first != unit.parameters.end(); ++first) {
    std::int64_t count = 0;
    for (auto p = first; p != unit.parameters.end(); ++p) {
      const std::int64_t needed =
          p == first ? 1 : p->offset - (first->offset + element_count(first->shape)) + 2;
      if (needed <= elements) ++count;
    }
    most = std::max(most, count);
  }
  return most;
}

}  // namespace

std::int64_t loading_bytes(const std::vector<Unit>& units, int ranks) {
  // Sizes of the parts as text: a slice with its first checksum, a further checksum, and a file of the
  // manifest with its tree of JSON.
  constexpr std::int64_t slice_bytes = 96, checksum_bytes = 20, file_bytes = 512;
  // The text is in memory several times while rank 0 cuts it into blocks and sends them.
  constexpr std::int64_t copies = 6;
  constexpr std::int64_t slab_bytes = std::int64_t{64} << 20;
  std::int64_t line = 0, largest = 0;
  for (const Unit& unit : units) {
    const std::int64_t bytes = unit.shard_elements(ranks) * static_cast<std::int64_t>(sizeof(float));
    line += static_cast<std::int64_t>(std::size(all_roles)) *
            (touched(unit, unit.shard_elements(ranks)) * slice_bytes + bytes / slab_bytes * checksum_bytes);
    largest = std::max(largest, bytes);
  }
  const std::int64_t block = std::min(static_cast<std::int64_t>(detail::block_bytes) + line, ranks * line);
  return std::min(detail::part_bytes, largest) + copies * block + ranks * file_bytes;
}

std::vector<float> load_parameter(const Manifest& manifest, const std::string& path, Role role) {
  const StoredByPath stored = stored_parameters(manifest);
  const auto found = stored.find(path);
  if (found == stored.end()) fail(fmt::format("{} has no parameter {}", manifest.dir, path));
  const Parameter& p = *found->second.parameter;
  const std::int64_t count = element_count(p.shape);
  std::vector<float> kept(static_cast<std::size_t>(count));
  Request request{
      role, found->second.unit, DType::f32, p.offset, count, reinterpret_cast<std::byte*>(kept.data()), {}};
  if (dtype_of(manifest, role, found->second.unit) == DType::f32) {
    fetch(manifest, {request});
  } else {
    std::vector<bf16> narrow(kept.size());
    request.dtype = DType::bf16;
    request.out = reinterpret_cast<std::byte*>(narrow.data());
    fetch(manifest, {request});
    std::transform(narrow.begin(), narrow.end(), kept.begin(), [](bf16 x) { return to_float(x); });
  }
  return as_out_in(p, kept);
}

std::vector<float> load_parameter(const std::string& dir, const std::string& path, Role role) {
  return load_parameter(read_manifest(dir), path, role);
}

}  // namespace weft::ckpt
