#include "hf/import.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "base/check.hpp"
#include "io/mapped_files.hpp"
#include "io/named_path.hpp"

namespace weft::hf {
namespace {

namespace fs = std::filesystem;
using io::File;

/// How many elements are converted at a time.
constexpr std::int64_t block_elements = std::int64_t{8} << 20;
/// The longest sequence, in tokens, in the deck of imported weights: `weft sample` computes as many for each
/// new one.
constexpr std::int64_t longest_context = 2048;

/// fp32 state on storage that can be read like memory. The file loses its name at once, so that nothing is
/// left of it however the program ends.
class Scratch {
 public:
  Scratch(const std::string& path, std::int64_t bytes)
      : path_(path), bytes_(static_cast<std::size_t>(bytes)), file_(path, File::Open::create) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const int error = errno;
    ::unlink(path.c_str());
    if (fd_ < 0) io::fail_errno("open", path, error);
  }
  ~Scratch() {
    watch_.reset();
    if (memory_ != MAP_FAILED) ::munmap(memory_, bytes_);
    if (fd_ >= 0) ::close(fd_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void write(const std::vector<float>& values, std::int64_t offset) {
    file_.write_at(values.data(), values.size() * sizeof(float), offset);
  }
  /// Maps the file once all is written: a page of a file that is too short would raise a signal, not an
  /// error. All is on storage before that: a page that storage refuses later is dropped, and would come back
  /// as zeros.
  std::byte* map() {
    file_.sync();
    memory_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd_, 0);
    if (memory_ == MAP_FAILED) io::fail_errno("map", "the weights", errno);
    watch_.emplace(memory_, bytes_, path_);
    return static_cast<std::byte*>(memory_);
  }

 private:
  std::string path_;
  std::size_t bytes_;
  File file_;
  int fd_ = -1;
  void* memory_ = MAP_FAILED;
  std::optional<io::MappedFileWatch> watch_;
};

std::int64_t bytes_of(const Unit& unit) {
  return unit.elements * static_cast<std::int64_t>(sizeof(float));
}

void write_masters(const Weights& weights, const std::vector<Unit>& units, Scratch& scratch) {
  std::vector<float> block;
  std::int64_t offset = 0;
  for (const Unit& unit : units) {
    for (const Parameter& p : unit.parameters) {
      const std::int64_t elements = element_count(p.shape);
      for (std::int64_t at = 0; at < elements; at += block_elements) {
        block.resize(static_cast<std::size_t>(std::min(block_elements, elements - at)));
        weights.read(p, at, static_cast<std::int64_t>(block.size()), block.data());
        scratch.write(block, offset + (p.offset + at) * static_cast<std::int64_t>(sizeof(float)));
      }
    }
    offset += bytes_of(unit);
  }
}

}  // namespace

Deck deck_of(const Weights& weights) {
  const std::string rest = fmt::format(
      "[run]\nname = \"imported\"\nsteps = 1\n[data]\nsynthetic = true\nseq = {}\nglobal_batch = 1\n"
      "[optimizer]\nlr = 1e-4\n",
      std::min(weights.config().max_position, longest_context));
  return parse_deck_text(model_tables(weights.config().model) + rest, weights.dir() + " as a deck");
}

ckpt::SaveReport import_weights(const Weights& weights, const ckpt::RunState& run,
                                const std::vector<Unit>& units, const std::string& checkpoints_dir) {
  weights.check(units);
  const std::string step = checkpoints_dir + "/step-00000000";
  if (io::is_taken(step))
    throw Error(ExitCode::bad_input, step + " is there already; name another directory");
  std::error_code error;
  fs::create_directories(checkpoints_dir, error);
  if (error) io::fail_errno("create", checkpoints_dir, error.value());
  std::int64_t bytes = 0;
  for (const Unit& unit : units) bytes += bytes_of(unit);
  if (const std::int64_t free = io::free_bytes(checkpoints_dir); 2 * bytes > free)
    throw Error(
        ExitCode::environment,
        fmt::format("not enough space in {} ({} bytes are free, the import needs {}, half of them for a "
                    "while); free some space",
                    checkpoints_dir, free, 2 * bytes));
  Scratch scratch(checkpoints_dir + "/weights.tmp", bytes);
  write_masters(weights, units, scratch);
  std::byte* memory = scratch.map();
  std::vector<ckpt::StateSlice> slices;
  for (const Unit& unit : units) {
    slices.push_back({unit.path, ckpt::Role::master, DType::f32, unit.elements, 0, unit.elements, memory});
    memory += bytes_of(unit);
  }
  ckpt::SaveOptions options;
  options.keep = 0;
  const ckpt::SaveReport report =
      ckpt::save(checkpoints_dir, run, units, slices, ckpt::single_rank(), options);
  if (!report.ok) throw Error(ExitCode::environment, report.reason);
  return report;
}

}  // namespace weft::hf
