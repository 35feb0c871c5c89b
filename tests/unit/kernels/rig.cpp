#include "rig.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <type_traits>

#include "support/kokkos_environment.hpp"

namespace weft::kernels::rig {

namespace {

std::unique_ptr<Space> the_space;

struct Environment : testing::Environment {
  void SetUp() override { the_space = std::make_unique<Space>(); }
  void TearDown() override { the_space.reset(); }
};

[[maybe_unused]] const auto* const environment = testing::AddGlobalTestEnvironment(new Environment);

template <class T>
void pack(const Array& values, std::vector<std::byte>& to) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T x;
    if constexpr (std::is_same_v<T, double>)
      x = values[i];
    else
      x = from_float<T>(static_cast<float>(values[i]));
    std::memcpy(to.data() + i * sizeof(T), &x, sizeof(T));
  }
}

template <class T>
void unpack(const std::vector<std::byte>& from, Array& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T x;
    std::memcpy(&x, from.data() + i * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, double>)
      values[i] = x;
    else
      values[i] = static_cast<double>(to_float(x));
  }
}

}  // namespace

Space& space() {
  return *the_space;
}

Array random(std::int64_t n, DType t, int seed, double scale, double offset) {
  std::mt19937_64 generator(static_cast<std::uint64_t>(seed));
  std::normal_distribution<double> normal;
  Array values(static_cast<std::size_t>(n));
  for (double& x : values) {
    const auto single = static_cast<float>(normal(generator) * scale + offset);
    x = static_cast<double>(t == DType::bf16 ? to_float(to_bf16(single)) : single);
  }
  return values;
}

Tokens random_tokens(std::int64_t n, std::int64_t vocab, int seed) {
  std::mt19937_64 generator(static_cast<std::uint64_t>(seed));
  Tokens tokens(static_cast<std::size_t>(n));
  for (auto& token : tokens)
    token = static_cast<std::int32_t>(generator() % static_cast<std::uint64_t>(vocab));
  return tokens;
}

Device::Device(const Array& values, DType t)
    : type_(t), n_(static_cast<std::int64_t>(values.size())), buffer_(values.size() * size_of(t), "test") {
  std::vector<std::byte> host(values.size() * size_of(t));
  if (t == DType::f32) pack<float>(values, host);
  if (t == DType::bf16) pack<bf16>(values, host);
  if (t == DType::f64) pack<double>(values, host);
  copy_to_device(space(), buffer_.data(), host.data(), host.size());
}

Device::Device(std::int64_t n, DType t)
    : type_(t), n_(n), buffer_(scratch(static_cast<std::size_t>(n) * size_of(t))) {}

std::vector<std::byte> Device::bytes() const {
  std::vector<std::byte> host(buffer_.size());
  copy_to_host(space(), host.data(), buffer_.data(), host.size());
  return host;
}

Array Device::read() const {
  Array values(static_cast<std::size_t>(n_));
  if (type_ == DType::f32) unpack<float>(bytes(), values);
  if (type_ == DType::bf16) unpack<bf16>(bytes(), values);
  if (type_ == DType::f64) unpack<double>(bytes(), values);
  return values;
}

DeviceTokens::DeviceTokens(const Tokens& tokens) : buffer_(tokens.size() * sizeof(std::int32_t), "test") {
  copy_to_device(space(), buffer_.data(), tokens.data(), buffer_.size());
}

Buffer scratch(std::size_t bytes) {
  const std::vector<unsigned char> nans(bytes, 0xff);
  Buffer buffer(bytes, "test scratch");
  copy_to_device(space(), buffer.data(), nans.data(), bytes);
  return buffer;
}

testing::AssertionResult close(const Array& actual, const Array& expected, double tolerance, double floor) {
  if (actual.size() != expected.size())
    return testing::AssertionFailure() << actual.size() << " elements, expected " << expected.size();
  double squares = 0;
  for (double e : expected) squares += e * e;
  const double rms = expected.empty() ? 0.0 : std::sqrt(squares / static_cast<double>(expected.size()));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double error = std::fabs(actual[i] - expected[i]);
    const double allowed = tolerance * (std::fabs(expected[i]) + rms) + floor;
    if (!(error <= allowed))  // a NaN fails here
      return testing::AssertionFailure() << "element " << i << " is " << actual[i] << ", expected "
                                         << expected[i] << " within " << allowed;
  }
  return testing::AssertionSuccess();
}

double distance(const Array& actual, const Array& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-300));
}

}  // namespace weft::kernels::rig
