#include "unit/model/kokkos_tool.hpp"

#include <Kokkos_Core.hpp>

#include <memory>
#include <mutex>

namespace weft::test {
namespace {

namespace tools = Kokkos::Tools::Experimental;

// Callbacks are plain functions, so what they write to belongs to the program.
struct Record {
  std::mutex mutex;
  KokkosTool::Recorded events;
  std::vector<std::string> regions;
};
std::unique_ptr<Record> record;
tools::EventSet before;

void begin_kernel(const char* name, const std::uint32_t, std::uint64_t*) {
  const std::lock_guard lock(record->mutex);
  const std::vector<std::string>& regions = record->regions;
  record->events.kernels.push_back({name, regions.empty() ? "" : regions.back(), regions.size()});
}

}  // namespace

KokkosTool::KokkosTool() {
  record = std::make_unique<Record>();
  before = tools::get_callbacks();
  tools::set_begin_parallel_for_callback(begin_kernel);
  tools::set_begin_parallel_reduce_callback(begin_kernel);
  tools::set_begin_parallel_scan_callback(begin_kernel);
  tools::set_push_region_callback([](const char* name) {
    const std::lock_guard lock(record->mutex);
    record->regions.emplace_back(name);
  });
  tools::set_pop_region_callback([] {
    const std::lock_guard lock(record->mutex);
    record->regions.pop_back();
  });
  tools::set_allocate_data_callback(
      [](Kokkos_Profiling_SpaceHandle, const char* label, const void*, std::uint64_t bytes) {
        if (bytes == 0)
          return;  // Kokkos tells of the scratch of every team's launch on a device, also if it has none
        const std::lock_guard lock(record->mutex);
        record->events.allocations.emplace_back(label);
      });
  tools::set_begin_deep_copy_callback([](Kokkos_Profiling_SpaceHandle, const char*, const void*,
                                         Kokkos_Profiling_SpaceHandle, const char* label, const void*,
                                         std::uint64_t) {
    const std::lock_guard lock(record->mutex);
    record->events.deep_copies.emplace_back(label);
  });
  tools::set_begin_fence_callback([](const char* name, const std::uint32_t, std::uint64_t*) {
    const std::lock_guard lock(record->mutex);
    record->events.fences.emplace_back(name);
  });
}

KokkosTool::~KokkosTool() {
  tools::set_callbacks(before);
  record.reset();
}

const KokkosTool::Recorded& KokkosTool::recorded() const {
  return record->events;
}
std::size_t KokkosTool::open_regions() const {
  return record->regions.size();
}

void allocate_with_kokkos(const std::string& label) {
  Kokkos::kokkos_free(Kokkos::kokkos_malloc(label, 64));
}

}  // namespace weft::test
