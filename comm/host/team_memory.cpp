#include "comm/host/team_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/align.hpp"
#include "comm/host/shared_segment.hpp"

namespace weft::comm::detail {
namespace {

/// How the segment is laid out: signals and the common stretch, and then what each rank shows.
struct Layout {
  Layout(const WindowSizes& sizes, int ranks)
      : members(ranks),
        signals(static_cast<std::int64_t>(aligned(Signals::bytes(ranks)))),
        head(whole_pages(signals + sizes.common)),
        shown(whole_pages(sizes.shown)) {}

  std::int64_t bytes() const { return head + members * shown; }
  std::int64_t shown_at(int member) const { return head + member * shown; }
  /// Where the pages of the head begin that a rank reserves: they lie near the cores of all ranks.
  std::int64_t head_from(int member) const { return head / page_bytes * member / members * page_bytes; }

  std::int64_t members, signals, head, shown;
};

struct Mappings {
  std::vector<AddressRange> ranges;
  std::vector<std::byte*> parts;
  std::byte* head = nullptr;
};

void wish_for_huge_pages([[maybe_unused]] std::byte* page, [[maybe_unused]] std::int64_t bytes) {
#ifdef MADV_HUGEPAGE
  // It is a wish, whose result does not matter.
  madvise(page, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
#endif
}

bool reserve(const SharedSegment& segment, const Layout& layout, int member) {
  const std::int64_t from = layout.head_from(member), to = layout.head_from(member + 1);
  return segment.reserve(from, to - from) && segment.reserve(layout.shown_at(member), layout.shown);
}

/// Maps memory of this process alone. Linux seldom gives huge pages to shared memory (shmem_enabled, mounts
/// of /dev/shm), and without them kernels are 3 to 4 % slower.
bool map_private(std::byte* begin, std::int64_t bytes) {
  if (bytes <= 0) return true;
  void* const there = mmap(begin, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (there == MAP_FAILED) return false;
  wish_for_huge_pages(begin, bytes);
  return true;
}

bool map_shared(const SharedSegment& segment, std::byte* address, std::int64_t offset, std::int64_t bytes) {
  if (bytes == 0) return true;
  if (segment.map(address, offset, bytes) == nullptr) return false;
  wish_for_huge_pages(address, bytes);
  return true;
}

/// Maps the segment as the layout says; nothing where the system refuses.
std::optional<Mappings> map_all(const SharedSegment& segment, const Layout& layout, int member,
                                const WindowSizes& sizes) {
  Mappings m;
  const auto reserve_addresses = [&](std::int64_t bytes) {
    return m.ranges.emplace_back(whole_pages(bytes)).begin();
  };
  m.head = reserve_addresses(layout.head);
  if (m.head == nullptr || !map_shared(segment, m.head, 0, layout.head)) return std::nullopt;
  for (int i = 0; i < layout.members; ++i) {
    const std::int64_t bytes = i == member ? std::max(sizes.part, layout.shown) : layout.shown;
    std::byte* const part = reserve_addresses(bytes);
    if (part == nullptr || !map_shared(segment, part, layout.shown_at(i), layout.shown)) return std::nullopt;
    if (!map_private(part + layout.shown, whole_pages(bytes) - layout.shown)) return std::nullopt;
    m.parts.push_back(part);
  }
  return m;
}

}  // namespace

std::unique_ptr<Window> make_window(const std::vector<int>& ranks, int member, const WindowSizes& sizes,
                                    std::int64_t spare, const HostTalk& talk) {
  const Layout layout(sizes, static_cast<int>(ranks.size()));
  std::optional<SharedSegment> segment;
  if (member == 0) segment = SharedSegment::create(layout.bytes());
  const std::string name = talk.from_first(segment ? segment->name() : std::string());
  if (member != 0 && !name.empty()) segment = SharedSegment::open(name);
  // Whoever looks last looks when all have reserved, those of other windows too.
  const bool reserved = segment && reserve(*segment, layout, member) && segment->leaves(spare);
  std::optional<Mappings> mappings;
  if (reserved) mappings = map_all(*segment, layout, member, sizes);
  if (!talk.all(mappings.has_value())) return nullptr;  // the pages end with the segment
  const auto held = std::make_shared<Mappings>(std::move(*mappings));
  return std::make_unique<Window>(ranks, member, sizes, held->parts, held->head + layout.signals, held->head,
                                  [held] { held->ranges.clear(); });
}

}  // namespace weft::comm::detail
