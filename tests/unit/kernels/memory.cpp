#include "kernels/memory.hpp"
#include "base/device.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

#include "rig.hpp"

namespace weft::kernels {
namespace {

std::vector<unsigned char> contents(const Buffer& buffer) {
  std::vector<unsigned char> host(buffer.size());
  copy_to_host(rig::space(), host.data(), buffer.data(), host.size());
  return host;
}

TEST(Buffer, IsAlignedAndZero) {
  for (std::size_t bytes :
       {std::size_t{1}, std::size_t{1000}, (std::size_t{2} << 20) - 1, (std::size_t{5} << 20) + 3}) {
    const Buffer buffer(bytes, "test");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0u);
    const auto host = contents(buffer);
    EXPECT_EQ(host.size(), bytes);
    EXPECT_TRUE(std::all_of(host.begin(), host.end(), [](unsigned char c) { return c == 0; }));
  }
  EXPECT_EQ(Buffer(0, "empty").data(), nullptr);
}

TEST(Buffer, MovesOwnership) {
  Buffer first(100, "test");
  std::byte* data = first.data();
  Buffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  Buffer third;
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), 100u);
}

TEST(Buffer, KeepsAndClearsMemoryOfOthers) {
  auto owner = std::make_shared<Buffer>(1000, "test");
  const std::weak_ptr<Buffer> alive = owner;
  const std::vector<unsigned char> ones(1000, 1);
  copy_to_device(rig::space(), owner->data(), ones.data(), ones.size());
  Buffer buffer(std::shared_ptr<std::byte>(owner, owner->data()), 1000);
  owner.reset();
  const Buffer moved = std::move(buffer);
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(contents(moved), std::vector<unsigned char>(1000, 0));
  buffer = Buffer(1, "other");
  EXPECT_FALSE(alive.expired());
}

TEST(Copy, ThereAndBackAndAcross) {
  Space& space = rig::space();
  std::vector<unsigned char> host((std::size_t{4} << 20) + 5);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<unsigned char>(i * 31 + i / 256);
  const Buffer a(host.size(), "a"), b(host.size(), "b");
  copy_to_device(space, a.data(), host.data(), host.size());
  copy(space, b.data(), a.data(), host.size());
  fence(space);
  EXPECT_EQ(contents(b), host);
  fill_zero(space, b.data() + 1, host.size() - 2);
  fence(space);
  const auto zeroed = contents(b);
  EXPECT_EQ(zeroed.front(), host.front());
  EXPECT_EQ(zeroed.back(), host.back());
  EXPECT_EQ(std::count(zeroed.begin() + 1, zeroed.end() - 1, 0),
            static_cast<std::ptrdiff_t>(host.size()) - 2);
}

TEST(Staging, TakesWhatMayChangeAtOnce) {
  Space& space = rig::space();
  constexpr std::size_t half = 3000;
  const Buffer a(half, "a"), b(half, "b");
  Staging staging(2 * half);
  for (const unsigned char first : {3, 5}) {
    std::vector<unsigned char> host(half, first);
    staging.copy_to_device(space, a.data(), host.data(), half);
    std::fill(host.begin(), host.end(), static_cast<unsigned char>(first + 1));
    staging.copy_to_device(space, b.data(), host.data(), half);
    EXPECT_THROW(staging.copy_to_device(space, a.data(), host.data(), 1), std::logic_error);
    fence(space);
    EXPECT_EQ(contents(a), std::vector<unsigned char>(half, first));
    EXPECT_EQ(contents(b), host);
    staging.reuse();
  }
}

TEST(Space, KnowsItsDevice) {
  EXPECT_GE(concurrency(), 1);
  EXPECT_EQ(native_stream(rig::space()) == nullptr, device_is_host());
}

}  // namespace
}  // namespace weft::kernels
