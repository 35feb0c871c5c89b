#include "runtime/state_copy.hpp"

#include <cstddef>

#include "base/affinity.hpp"
#include "base/clock.hpp"

namespace weft::runtime {
namespace {

std::size_t bytes_of(const ckpt::StateSlice& slice) {
  return static_cast<std::size_t>(slice.count) * size_of(slice.dtype);
}

}  // namespace

StateCopy::StateCopy(const ModelState& state)
    : state_(state), buffer_(static_cast<std::size_t>(state.own_bytes())), slices_(state.own_slices()) {
  std::byte* to = buffer_.data();
  for (ckpt::StateSlice& slice : slices_) {
    slice.data = to;
    to += bytes_of(slice);
  }
}

void StateCopy::start() {
  wait();
  under_way_ = std::async(std::launch::async, [this] {
                 reset_affinity();
                 copy();
               }).share();
}

void StateCopy::copy() {
  const double start = seconds_now();
  const std::vector<ckpt::StateSlice> state = state_.own_slices();
  for (std::size_t i = 0; i < state.size(); ++i)
    kernels::HostBuffer::fetch(space_, slices_[i].data, state[i].data, bytes_of(state[i]));
  seconds_ = seconds_now() - start;
}

void StateCopy::wait() const {
  if (under_way_.valid()) under_way_.wait();
}

void StateCopy::check() const {
  if (under_way_.valid()) under_way_.get();
}

}  // namespace weft::runtime
