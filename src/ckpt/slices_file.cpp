#include "ckpt/slices_file.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/check.hpp"
#include "base/quoted.hpp"
#include "ckpt/format_1.hpp"
#include "ckpt/stored_files.hpp"

namespace weft::ckpt::detail {

namespace {

std::string path_of(const Manifest& manifest) {
  return manifest.dir + "/" + (manifest.version == 1 ? manifest_name : slices_name);
}

[[noreturn]] void refuse(const Manifest& manifest, const std::string& why) {
  throw Error(ExitCode::bad_checkpoint,
              one_line(fmt::format("{} is damaged ({}); restore the file, or resume from an older checkpoint",
                                   path_of(manifest), why)));
}

/// Reads the text in blocks of whole lines; an empty block is the end.
class Blocks {
 public:
  virtual ~Blocks() = default;
  virtual std::string next() = 0;
};

class SlicesReader : public Blocks {
 public:
  explicit SlicesReader(const Manifest& manifest)
      : manifest_(manifest), file_(path_of(manifest), io::File::Open::read) {
    const std::int64_t bytes = file_.size();
    if (bytes != manifest.slices.bytes)
      throw io::Incomplete(one_line(fmt::format(
          "{} is {} ({} bytes instead of {}); restore the file, or resume from an older checkpoint",
          path_of(manifest), bytes < manifest.slices.bytes ? "truncated" : "too long", bytes,
          manifest.slices.bytes)));
    HashStream hash;
    for (std::string part; !(part = read()).empty();) hash.add(part.data(), part.size());
    if (hash.value() != manifest.slices.checksum) refuse(manifest, "its checksum does not match");
    at_ = 0;
  }

  std::string next() override {
    std::string block = std::move(rest_);
    std::size_t end = 0;
    do {
      const std::string part = read();
      if (part.empty()) break;
      const std::size_t last = part.rfind('\n');
      if (last != std::string::npos) end = block.size() + last + 1;
      block += part;
    } while (end == 0 && block.size() <= most_line_bytes);
    if (end == 0 && !block.empty()) refuse(manifest_, "a line of it does not end");
    rest_ = block.substr(end);
    block.resize(end);
    return block;
  }

 private:
  std::string read() {
    std::string part(static_cast<std::size_t>(
                         std::min(static_cast<std::int64_t>(block_bytes), manifest_.slices.bytes - at_)),
                     '\0');
    file_.read_at(part.data(), part.size(), at_);
    at_ += static_cast<std::int64_t>(part.size());
    return part;
  }

  const Manifest& manifest_;
  io::File file_;
  std::int64_t at_ = 0;
  std::string rest_;  ///< the beginning of a line whose end has not been read yet
};

class Format1Reader : public Blocks {
 public:
  explicit Format1Reader(const Manifest& manifest)
      : file_(path_of(manifest), io::File::Open::read), text_(source_of(file_), path_of(manifest)) {}

  std::string next() override {
    std::string block;
    while (block.size() < block_bytes) {
      const std::optional<Shard> shard = text_.next();
      if (!shard) break;
      block += to_line(*shard) + '\n';
    }
    return block;
  }

 private:
  io::File file_;
  Format1Text text_;
};

std::unique_ptr<Blocks> open_blocks(const Manifest& manifest) {
  if (manifest.version == 1) return std::make_unique<Format1Reader>(manifest);
  return std::make_unique<SlicesReader>(manifest);
}

}  // namespace

SlicesWriter::SlicesWriter(const std::string& path) : file_(path, io::File::Open::create) {}

void SlicesWriter::add(const std::string& line) {
  if (line.size() > most_line_bytes)
    throw Error(ExitCode::bad_checkpoint,
                fmt::format("a rank's slices take {} bytes to describe (at most {} can be read); use more "
                            "ranks, or larger slabs",
                            line.size(), most_line_bytes));
  block_ += line;
  block_ += '\n';
  if (block_.size() >= block_bytes) write();
}

void SlicesWriter::write() {
  file_.write_at(block_.data(), block_.size(), bytes_);
  hash_.add(block_.data(), block_.size());
  bytes_ += static_cast<std::int64_t>(block_.size());
  block_.clear();
}

Digest SlicesWriter::finish() {
  write();
  file_.sync();
  file_.close();
  return {bytes_, hash_.value()};
}

void read_lines(std::string_view block, const Manifest& manifest, std::size_t& index,
                const std::function<void(const Shard&)>& take) {
  while (!block.empty()) {
    const std::string_view line = block.substr(0, block.find('\n'));
    block.remove_prefix(std::min(block.size(), line.size() + 1));
    Shard shard;
    std::string reason;
    try {
      shard = shard_from_line(line);
      check_shard(shard, manifest, index);
    } catch (const Error& e) {
      reason = e.what();
    }
    if (!reason.empty()) refuse(manifest, fmt::format("line {}: {}", index + 1, reason));
    ++index;
    take(shard);
  }
}

void for_each_shard(const Manifest& manifest, const Hooks& hooks,
                    const std::function<void(const Shard&)>& take) {
  std::unique_ptr<Blocks> blocks;
  std::size_t index = 0;
  for (std::string block;;) {
    block = from_root(hooks, [&] {
      try {
        if (!blocks) blocks = open_blocks(manifest);
        return blocks->next();
      } catch (const io::Incomplete& e) {
        rethrow(manifest, e);
      }
    });
    if (block.empty()) break;
    std::exception_ptr problem;
    try {
      read_lines(block, manifest, index, take);
    } catch (const std::exception&) {
      problem = std::current_exception();
    }
    leave_together(hooks, problem);
  }
  if (index != manifest.files.size())
    refuse(manifest, fmt::format("{} shards instead of {}", index, manifest.files.size()));
}

void for_each_shard(const Manifest& manifest, const std::function<void(const Shard&)>& take) {
  for_each_shard(manifest, single_rank(), take);
}

}  // namespace weft::ckpt::detail
