// A vector of at most N small things that never allocates: a graph of a large step has a million of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <stdexcept>

namespace weft {

/// The part of std::vector's interface that is used. More than N elements throw std::length_error.
template <class T, std::size_t N>
class InlineVector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  InlineVector() = default;
  InlineVector(std::initializer_list<T> values) : InlineVector(values.begin(), values.end()) {}
  explicit InlineVector(std::size_t count, const T& value = T{}) {
    for (std::size_t i = 0; i < count; ++i) push_back(value);
  }
  template <std::input_iterator Iterator>
  InlineVector(Iterator first, Iterator last) {
    for (; first != last; ++first) push_back(static_cast<T>(*first));
  }

  static constexpr std::size_t capacity() { return N; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return items_.data(); }
  T* end() { return begin() + size_; }
  const T* begin() const { return items_.data(); }
  const T* end() const { return begin() + size_; }
  T& operator[](std::size_t i) { return items_[i]; }
  const T& operator[](std::size_t i) const { return items_[i]; }
  const T& at(std::size_t i) const {
    if (i >= size_) throw std::out_of_range("an InlineVector has fewer elements");
    return items_[i];
  }
  T& back() { return items_[size_ - 1]; }
  const T& back() const { return items_[size_ - 1]; }

  void push_back(T value) { insert(end(), value); }
  void insert(iterator place, T value) {
    if (size_ == N) throw std::length_error("an InlineVector is full");
    std::move_backward(place, end(), end() + 1);
    *place = value;
    ++size_;
  }

  bool operator==(const InlineVector& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::array<T, N> items_{};
  std::size_t size_ = 0;
};

}  // namespace weft
