// A stretch of memory on /dev/shm that processes of one host share. Its pages are reserved before anybody
// touches them. Where there are too few, the caller learns it by an answer, and not by a signal (SIGBUS),
// whatever memory other jobs of the host take meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace weft::comm::detail {

/// A file that begins without pages. Its name lives until all have opened it.
class SharedSegment {
 public:
  /// Makes a new one; nothing where the system refuses.
  static std::optional<SharedSegment> create(std::int64_t bytes);
  /// Opens the segment of another process by its name; nothing where it cannot be seen from here.
  static std::optional<SharedSegment> open(const std::string& name);
  ~SharedSegment();
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;

  const std::string& name() const { return name_; }
  /// Takes the name away: the memory then ends with the last mapping.
  void forget_name();
  /// Reserves the pages of a range near the core that calls. Returns false where the system has no room.
  bool reserve(std::int64_t offset, std::int64_t bytes) const;
  /// Whether the file system of segments has `bytes` more that nobody has taken yet.
  bool leaves(std::int64_t bytes) const;
  /// Maps a range at `address`, over what is there, or anywhere when that is null. Returns null where the
  /// system refuses. Offsets and addresses are multiples of a page.
  std::byte* map(std::byte* address, std::int64_t offset, std::int64_t bytes) const;

 private:
  SharedSegment(int fd, std::string name, bool owns_name);

  int fd_;
  std::string name_;
  bool owns_name_;
};

/// Address space with nothing behind it, in which mappings are put side by side. It unmaps all that was put
/// there.
class AddressRange {
 public:
  /// Takes space that begins at a multiple of huge pages. `begin()` is null where the system refuses.
  explicit AddressRange(std::int64_t bytes);
  ~AddressRange();
  AddressRange(AddressRange&& other) noexcept;
  AddressRange& operator=(AddressRange&&) = delete;

  std::byte* begin() const { return begin_; }

 private:
  std::byte* mapped_ = nullptr;
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A number of bytes that is a multiple of the pages of every system.
inline constexpr std::int64_t page_bytes = std::int64_t{64} << 10;
inline constexpr std::int64_t huge_page_bytes = std::int64_t{2} << 20;

constexpr std::int64_t whole_pages(std::int64_t bytes) {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace weft::comm::detail
