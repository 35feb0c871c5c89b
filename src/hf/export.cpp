#include "hf/export.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "ckpt/fetch.hpp"
#include "ckpt/manifest.hpp"
#include "hf/config.hpp"
#include "hf/files.hpp"
#include "hf/names.hpp"
#include "io/descriptor.hpp"
#include "io/file.hpp"
#include "io/named_path.hpp"
#include "io/new_directory.hpp"
#include "io/path.hpp"
#include "io/small_file.hpp"

namespace weft::hf {
namespace {

namespace fs = std::filesystem;
using io::File;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ExitCode::bad_checkpoint, message);
}

[[noreturn]] void fail_taken(const std::string& path) {
  throw Error(ExitCode::bad_input, fmt::format("{} is there already; name a new directory", path));
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// The directory in which one export makes `path`. Two exports to one path would write into each other's
/// files. Those of one host are kept apart by a lock on the directory, which ends with its process; those of
/// other hosts, where such a lock may not be seen, by the directory's name.
class Claim {
 public:
  /// Makes and locks the directory, and removes what an interrupted export left in it. Throws
  /// Error(bad_input) when `path` is there, or another export is making it.
  explicit Claim(const std::string& path) : temporary_(fmt::format("{}.weft.{}.tmp", path, host_name())) {
    if (io::is_taken(path)) fail_taken(path);
    io::make_directories(temporary_);
    directory_.emplace(::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory_->get() < 0) io::fail_errno("open", temporary_, errno);
    const bool locked = ::flock(directory_->get(), LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno != EWOULDBLOCK) io::fail_errno("lock", temporary_, errno);
    WEFT_VALIDATE(locked && is_named(),
                  "another export is making {}; wait for its end, or name another directory", path);
    for (const fs::directory_entry& left : fs::directory_iterator(temporary_)) {
      std::error_code error;
      fs::remove_all(left.path(), error);
      if (error) io::fail_errno("remove", left.path().string(), error.value());
    }
  }
  const std::string& temporary() const { return temporary_; }

 private:
  /// Whether the directory still has its name. One that another export has just ended with has lost it.
  bool is_named() const {
    struct stat named {};
    struct stat opened {};
    return ::stat(temporary_.c_str(), &named) == 0 && ::fstat(directory_->get(), &opened) == 0 &&
           named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
  }

  std::string temporary_;
  std::optional<io::Descriptor> directory_;
};

/// Where the checkpoint has a parameter.
struct Source {
  int unit = 0;
  const Parameter* parameter = nullptr;
};

/// Puts tensors of the checkpoint into a file, in whatever order the shards hold them, so that a file takes
/// one pass over the shards.
class FileWriter {
 public:
  FileWriter(const ckpt::Manifest& manifest, std::int64_t head_dim, Element type, File& file)
      : manifest_(manifest), head_dim_(head_dim), type_(type), file_(file) {}

  /// Adds a tensor, whose elements go to `offset` of the file.
  void add(const Source& source, std::int64_t offset) {
    const Parameter& parameter = *source.parameter;
    requests_.push_back({ckpt::Role::master, source.unit, DType::f32, parameter.offset,
                         element_count(parameter.shape), nullptr,
                         [this, &source, offset](std::int64_t at, std::int64_t count, const std::byte* data) {
                           put(source, offset, at, count, reinterpret_cast<const float*>(data));
                         }});
  }
  void write() { ckpt::fetch(manifest_, requests_); }

 private:
  /// Writes elements [at, at + count) of the tensor, which come in Weft's order of rows.
  void put(const Source& source, std::int64_t offset, std::int64_t at, std::int64_t count,
           const float* values) {
    const std::int64_t size = size_of(type_);
    bytes_.resize(static_cast<std::size_t>(count * size));
    if (!from_f32(type_, values, count, bytes_.data())) fail_range(source, count, values);
    const Parameter& p = *source.parameter;
    if (p.in_first) {
      put_turned(p, offset, at, count);
      return;
    }
    std::vector<Run> runs{{at, 0, count}};
    // These runs tell where Weft's order takes elements from. Written to the same places, they are in the
    // other order.
    if (is_rotated(p.path)) runs = rotated_runs(RowOrder::weft, head_dim_, p.shape[1], at, count);
    for (const Run& run : runs)
      file_.write_at(bytes_.data() + run.at * size, static_cast<std::size_t>(run.count * size),
                     offset + run.from * size);
  }

  /// Writes elements [at, at + count) of a parameter [in, out], which stand in bytes_, where they are in
  /// [out, in].
  void put_turned(const Parameter& p, std::int64_t offset, std::int64_t at, std::int64_t count) {
    const std::int64_t size = size_of(type_), in = p.shape[0], outputs = p.shape[1];
    for (std::int64_t output = 0; output < outputs; ++output) {
      const auto [begin, end] = rows_of_column(at, at + count, outputs, output);
      if (begin >= end) continue;
      column_.resize(static_cast<std::size_t>((end - begin) * size));
      for (std::int64_t i = begin; i < end; ++i)
        std::memcpy(column_.data() + (i - begin) * size, bytes_.data() + (i * outputs + output - at) * size,
                    static_cast<std::size_t>(size));
      file_.write_at(column_.data(), column_.size(), offset + (output * in + begin) * size);
    }
  }

  /// Throws an error that names the first of the weights that is out of the type's range.
  [[noreturn]] void fail_range(const Source& source, std::int64_t count, const float* values) const {
    std::uint32_t ignored = 0;
    for (std::int64_t i = 0; i < count; ++i)
      if (!from_f32(type_, values + i, 1, reinterpret_cast<std::byte*>(&ignored)))
        fail(fmt::format("{}: a weight of {} in {} is out of the range of {}; use --dtype {}", manifest_.dir,
                         values[i], source.parameter->path, name_of(type_),
                         type_ == Element::f16 ? "bf16" : "f32"));
    throw std::logic_error("all weights are in range");
  }

  const ckpt::Manifest& manifest_;
  std::int64_t head_dim_;
  Element type_;
  File& file_;
  std::vector<ckpt::Request> requests_;
  std::vector<std::byte> bytes_, column_;
};

class Export {
 public:
  Export(const std::string& checkpoint, const ExportOptions& options)
      : options_(options),
        manifest_(ckpt::read_manifest(checkpoint)),
        deck_(parse_saved_deck(manifest_.run.deck, checkpoint + "/" + ckpt::manifest_name)) {
    for (std::size_t u = 0; u < manifest_.units.size(); ++u)
      for (const Parameter& p : manifest_.units[u].parameters) {
        const Shape out_in = out_in_shape(p);
        const Tensor tensor{tensor_name(p.path),
                            std::string(name_of(options.dtype)),
                            {out_in.begin(), out_in.end()},
                            0,
                            element_count(p.shape) * size_of(options.dtype)};
        sources_[tensor.name] = {static_cast<int>(u), &p};
        tensors_.push_back(tensor);
        report_.bytes += tensor.bytes;
        report_.parameters += element_count(p.shape);
      }
  }

  ExportReport write(const std::string& out_dir) {
    const std::string path = io::without_slashes(out_dir);
    const Claim claim(path);
    io::NewDirectory out(path, claim.temporary());
    const std::int64_t free = io::free_bytes(out.temporary());
    if (report_.bytes > free)
      throw Error(
          ExitCode::environment,
          fmt::format("not enough space for {} ({} bytes are free, the weights need {}); free some space",
                      out_dir, free, report_.bytes));
    const auto files = split_into_files(tensors_, options_.file_bytes);
    for (const ModelFile& file : files) write_file(out.file(file.name), file);
    if (files.size() > 1) io::write_text_durably(out.file(index_name), index_text(files));
    const Config config{deck_.model,
                        options_.max_position > 0 ? options_.max_position : exported_max_position(deck_)};
    io::write_text_durably(out.file(config_name), config_text(config, options_.dtype));
    if (!out.publish()) fail_taken(path);
    out.sync();
    report_.files = static_cast<int>(files.size());
    return report_;
  }

 private:
  void write_file(const std::string& path, const ModelFile& model) const {
    File file(path, File::Open::create);
    const std::string header = header_text(model.tensors);
    file.write_at(header.data(), header.size(), 0);
    FileWriter writer(manifest_, deck_.model.dim / deck_.model.heads, options_.dtype, file);
    auto offset = static_cast<std::int64_t>(header.size());
    for (const Tensor& tensor : model.tensors) {
      writer.add(sources_.at(tensor.name), offset);
      offset += tensor.bytes;
    }
    writer.write();
    file.sync();
    file.drop_cache();
    file.close();
  }

  ExportOptions options_;
  ckpt::Manifest manifest_;
  Deck deck_;
  std::vector<Tensor> tensors_;  ///< all tensors, in the model's order
  std::map<std::string, Source> sources_;
  ExportReport report_;
};

}  // namespace

std::int64_t exported_max_position(const Deck& deck) {
  const RopeScalingDeck& scaling = deck.model.rope_scaling;
  if (scaling.factor == 1) return deck.data.seq;
  const double stretched = scaling.factor * static_cast<double>(scaling.original_max_position);
  return std::max(deck.data.seq, static_cast<std::int64_t>(stretched));
}

ExportReport export_weights(const std::string& checkpoint, const std::string& out_dir,
                            const ExportOptions& options) {
  return Export(checkpoint, options).write(out_dir);
}

}  // namespace weft::hf
