#include "measure/noise.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/rng.hpp"

namespace weft::measure {

Noise::Noise(kernels::Space& space) : space_(space) {
  const RandomStream random(0, "measure.noise");
  for (std::size_t i = 0; i < period; ++i) {
    const auto x = static_cast<float>(random.normal(i));
    floats_.push_back(x);
    halves_.push_back(to_bf16(x));
    e4m3s_.push_back(to_float8<e4m3>(x));
    e5m2s_.push_back(to_float8<e5m2>(x));
  }
}

kernels::Buffer Noise::buffer(std::int64_t elements, DType type) const {
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(type);
  const std::size_t first = std::min(bytes, period * size_of(type));
  kernels::Buffer buffer(bytes, "weft::measure::noise");
  kernels::copy_to_device(space_, buffer.data(), numbers(type), first);
  // What is there already is copied behind itself, because copies from the host wait for their end each.
  for (std::size_t there = first; there < bytes; there *= 2)
    kernels::copy(space_, buffer.data() + there, buffer.data(), std::min(there, bytes - there));
  return buffer;
}

kernels::Buffer Noise::scales(std::int64_t rows) const {
  const std::vector<float> scales(static_cast<std::size_t>(rows), 0.25F);
  kernels::Buffer buffer(scales.size() * sizeof(float), "weft::measure::noise");
  kernels::copy_to_device(space_, buffer.data(), scales.data(), buffer.size());
  return buffer;
}

const void* Noise::numbers(DType type) const {
  switch (type) {
    case DType::f32: return floats_.data();
    case DType::bf16: return halves_.data();
    case DType::e4m3: return e4m3s_.data();
    case DType::e5m2: return e5m2s_.data();
    default: throw std::logic_error("there is no noise of type " + std::string(name_of(type)));
  }
}

}  // namespace weft::measure
