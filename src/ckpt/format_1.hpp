// Manifests of format 1, which Weft no longer writes. They hold the descriptions of all shards, hundreds of
// megabytes for a thousand ranks, and are read shard by shard.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ckpt/shard.hpp"
#include "io/file.hpp"

namespace weft::ckpt::detail {

/// A text that is read in parts. The string or file that it reads from outlives it.
struct TextSource {
  std::int64_t bytes = 0;
  std::function<void(char* to, std::size_t bytes, std::int64_t offset)> read;
};
TextSource source_of(std::string_view text);
TextSource source_of(const io::File& file);

class Format1Text {
 public:
  /// Reads all of the text once to compare its checksum, and then its head. Throws Error(bad_checkpoint);
  /// `name` is the file's name in the message.
  Format1Text(TextSource source, std::string name);

  /// Whether a text with this beginning is a manifest of format 1.
  static bool begins(std::string_view text);

  /// The manifest as JSON, without its shards.
  const std::string& head() const { return head_; }
  /// The next shard, or nothing at the end. Its slices' offsets are 0, and it has no header parts.
  std::optional<Shard> next();

 private:
  void compare_checksum() const;
  void read_head();
  bool has_more();
  /// Takes the next character; the end of the text here is an error.
  char take();
  /// The text of the JSON object that begins with `first`, which is taken already.
  std::string object(char first);
  Shard parse(const std::string& object) const;
  [[noreturn]] void refuse(const std::string& why) const;

  TextSource source_;
  std::string name_;
  std::string head_;
  std::string part_;         ///< a part of the text
  std::size_t at_ = 0;       ///< the next character, in that part of the text
  std::int64_t behind_ = 0;  ///< where that part ends in the text
  bool first_ = true;        ///< no shard has been read yet
  bool ended_ = false;
};

}  // namespace weft::ckpt::detail
