// Measures what the description of a large checkpoint takes. It writes the description of R ranks and U units
// with the code of a save, reads it as rank 0 of a load does, and prints time and memory beside the limit of
// 64 MiB.
//
//   bench_manifest [RANKS] [UNITS] [DIR]      (16384 254 /tmp)
//
// The shards are sparse files without data, because nobody reads them. Rank 0 asks for none of their
// elements, so what is measured is what every rank takes beside its state and a part of a slab. Each phase is
// a process of its own, and its figure is its peak of resident memory less what it had at its beginning.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "ckpt/description.hpp"
#include "ckpt/list.hpp"
#include "ckpt/load.hpp"
#include "ckpt/manifest.hpp"

using namespace weft;

namespace {

constexpr double mib = 1 << 20;
constexpr std::int64_t limit = std::int64_t{64} << 20;

/// A line of /proc/self/status, in bytes.
std::int64_t status_of(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  return 0;
}

/// Runs a phase in a process of its own, and prints what it took. Returns whether it ended well and within
/// the limit.
bool phase(const char* name, const std::function<std::int64_t()>& run) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child != 0) {
    int status = 1;
    ::waitpid(child, &status, 0);
    return status == 0;
  }
  try {
    const std::int64_t before = status_of("VmRSS");
    const auto start = std::chrono::steady_clock::now();
    const std::int64_t bytes = run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const std::int64_t extra = status_of("VmHWM") - before;
    fmt::print("{:<34} {:8.2f} s {:8.1f} MiB of memory (limit 64) {:10.1f} MiB of text\n", name, took.count(),
               static_cast<double>(extra) / mib, static_cast<double>(bytes) / mib);
    std::fflush(stdout);
    ::_exit(extra <= limit ? 0 : 2);
  } catch (const std::exception& e) {
    fmt::print("{}: {}\n", name, e.what());
    std::fflush(stdout);
  }
  ::_exit(1);
}

std::vector<Unit> units_of(int count, int ranks) {
  std::vector<Unit> units;
  for (int i = 0; i < count; ++i) {
    const std::int64_t elements = std::int64_t{shard_granularity} * ranks;
    const std::string path = fmt::format("layers.{}.part", i);
    units.push_back({path, {Parameter{path + ".w", {elements}, 0}}, elements});
  }
  return units;
}

std::string line_of(int rank, int units) {
  ckpt::Shard shard{fmt::format("shard-{:05}.h5", rank), 0, {{0, std::int64_t{1} << 20, 1}}, {}};
  std::int64_t offset = std::int64_t{1} << 20;
  for (int u = 0; u < units; ++u) {
    for (const ckpt::Role role : ckpt::all_roles) {
      ckpt::ShardSlice s{role, u, DType::f32, shard_granularity * rank, shard_granularity, offset, {}};
      s.checksums.push_back(0x9e3779b97f4a7c15ull * static_cast<std::uint64_t>(offset + rank + 1));
      shard.slices.push_back(s);
      offset += s.bytes();
    }
  }
  shard.bytes = offset;
  return ckpt::detail::to_line(shard);
}

/// Does what rank 0 of a save does, but without data and without gathers.
std::int64_t write(const std::string& dir, int ranks, int units) {
  ckpt::Manifest manifest;
  manifest.serial = 1;
  manifest.slab_bytes = limit;
  manifest.run.world = ranks;
  manifest.units = units_of(units, ranks);
  ckpt::detail::Description description(dir, manifest);
  const int at_once = ckpt::detail::ranks_at_once(line_of(ranks - 1, units).size());
  for (int first = 0; first < ranks; first += at_once) {
    std::vector<std::string> lines;
    for (int rank = first; rank < std::min(ranks, first + at_once); ++rank)
      lines.push_back(line_of(rank, units));
    description.add(lines);
  }
  description.finish(manifest);
  io::write_text_durably(dir + "/" + ckpt::manifest_name, ckpt::detail::to_text(manifest));
  for (const ckpt::StoredFile& file : manifest.files) {
    std::ofstream(dir + "/" + file.name).flush();
    std::filesystem::resize_file(dir + "/" + file.name, static_cast<std::uintmax_t>(file.bytes));
  }
  return manifest.slices.bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 16384;
  const int units = argc > 2 ? std::atoi(argv[2]) : 254;
  const std::string parent = argc > 3 ? argv[3] : "/tmp";
  const std::string run = fmt::format("{}/weft-bench-manifest-{}", parent, ::getpid());
  const std::string dir = run + "/step-00000000";
  std::filesystem::create_directories(dir);
  fmt::print("{} ranks x {} units; planned for a load: {:.1f} MiB\n", ranks, units,
             static_cast<double>(ckpt::loading_bytes(units_of(units, ranks), ranks)) / mib);
  bool good = phase("write (rank 0's part of a save)", [&] { return write(dir, ranks, units); });
  good =
      good && phase("list (retention, newest)", [&] {
        const std::string table = ckpt::list(run);
        return table.find("whole") == std::string::npos
                   ? throw std::runtime_error(table)
                   : static_cast<std::int64_t>(std::filesystem::file_size(dir + "/" + ckpt::manifest_name));
      });
  good = good && phase("load (rank 0, nothing asked for)", [&] {
           const ckpt::Manifest manifest = ckpt::read_manifest(dir, ckpt::single_rank());
           ckpt::load(manifest, manifest.units, {});
           return manifest.slices.bytes;
         });
  std::filesystem::remove_all(run);
  return good ? 0 : 1;
}
