#include "hf/safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/quoted.hpp"

namespace weft::hf {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& file, const std::string& problem) {
  throw Error(ExitCode::bad_checkpoint, fmt::format("{}: {}", file, problem));
}

/// Bytes of an element; 0 for an unknown type.
std::int64_t dtype_bytes(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 15> sizes{{{"BOOL", 1},
                                                                             {"U8", 1},
                                                                             {"I8", 1},
                                                                             {"F8_E5M2", 1},
                                                                             {"F8_E4M3", 1},
                                                                             {"I16", 2},
                                                                             {"U16", 2},
                                                                             {"F16", 2},
                                                                             {"BF16", 2},
                                                                             {"I32", 4},
                                                                             {"U32", 4},
                                                                             {"F32", 4},
                                                                             {"I64", 8},
                                                                             {"U64", 8},
                                                                             {"F64", 8}}};
  for (const auto& [name, bytes] : sizes)
    if (name == dtype) return bytes;
  return 0;
}

/// Walks the JSON text without building a tree of it. Anything that does not belong there ends the walk at
/// that place.
class HeaderReader final : public json::json_sax_t {
 public:
  explicit HeaderReader(std::int64_t data_bytes) : data_bytes_(data_bytes) {}

  std::vector<Tensor> take() { return std::move(tensors_); }
  const std::string& problem() const { return problem_; }

  bool start_object(std::size_t /*elements*/) override {
    if (depth_ == 2 || in_list_) return refuse("an object where none belongs");
    ++depth_;
    begin_ = end_ = std::nullopt;
    has_dtype_ = has_shape_ = false;
    return true;
  }
  bool end_object() override { return --depth_ == 0 || in_metadata() || finish_tensor(); }
  bool key(string_t& name) override {
    if (depth_ == 2) {
      field_ = name;
      return true;
    }
    tensor_ = Tensor{};
    tensor_.name = name;
    return names_.insert(name).second || refuse("it is there twice");
  }
  bool start_array(std::size_t /*elements*/) override {
    if (depth_ != 2 || in_list_ || in_metadata()) return refuse("a list where none belongs");
    if (field_ == "shape") {
      if (std::exchange(has_shape_, true)) return refuse("its shape is there twice");
    } else if (field_ != "data_offsets") {
      return refuse(fmt::format("{} is a list", shown(field_)));
    } else if (begin_) {
      return refuse("its data_offsets are there twice");
    }
    return in_list_ = true;
  }
  bool end_array() override {
    in_list_ = false;
    return field_ == "shape" || end_ || refuse("its data_offsets are not two numbers");
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_list_) return refuse("a number where none belongs");
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) return refuse("a number of more than 63 bits");
    const auto number = static_cast<std::int64_t>(value);
    if (field_ == "shape") {
      tensor_.shape.push_back(number);
      return true;
    }
    if (end_) return refuse("its data_offsets are not two numbers");
    (begin_ ? end_ : begin_) = number;
    return true;
  }
  bool number_integer(number_integer_t value) override { return refuse(fmt::format("the number {}", value)); }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    return refuse(fmt::format("the number {}", text.substr(0, 40)));
  }
  bool string(string_t& value) override {
    if (depth_ != 2 || in_list_) return refuse("text where none belongs");
    if (in_metadata()) return true;
    if (field_ != "dtype") return refuse(fmt::format("{} is text", shown(field_)));
    if (std::exchange(has_dtype_, true)) return refuse("its dtype is there twice");
    tensor_.dtype = value;
    return true;
  }
  bool null() override { return refuse("null where a value belongs"); }
  bool boolean(bool /*value*/) override { return refuse("true or false where neither belongs"); }
  bool binary(binary_t& /*value*/) override { return refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*why*/) override {
    problem_ = fmt::format("its header is not JSON (at byte {})", position);
    return false;
  }

 private:
  bool in_metadata() const { return tensor_.name == "__metadata__"; }
  bool refuse(const std::string& why) {
    problem_ = tensor_.name.empty() ? fmt::format("its header has {}", why)
                                    : fmt::format("tensor {}: {}", shown(tensor_.name), why);
    return false;
  }

  bool finish_tensor() {
    if (!has_dtype_ || !has_shape_ || !end_) return refuse("dtype, shape or data_offsets is missing");
    std::int64_t bytes = dtype_bytes(tensor_.dtype);
    if (bytes == 0) return refuse(fmt::format("dtype {} is not known", shown(tensor_.dtype)));
    for (const std::int64_t extent : tensor_.shape)
      if (__builtin_mul_overflow(bytes, extent, &bytes))
        return refuse(fmt::format("shape {} is more than 63 bits of bytes", shown(tensor_.shape)));
    if (*begin_ > *end_ || *end_ > data_bytes_)
      return refuse(fmt::format("data_offsets [{}, {}] are not within the file's {} bytes of data", *begin_,
                                *end_, data_bytes_));
    if (*end_ - *begin_ != bytes)
      return refuse(fmt::format("shape {} of {} is {} bytes, its data_offsets are {}", shown(tensor_.shape),
                                tensor_.dtype, bytes, *end_ - *begin_));
    tensor_.begin = *begin_;
    tensor_.bytes = bytes;
    tensors_.push_back(std::move(tensor_));
    tensor_ = Tensor{};
    return true;
  }

  std::int64_t data_bytes_;
  std::vector<Tensor> tensors_;
  std::set<std::string> names_;
  std::string problem_;
  Tensor tensor_;  ///< the tensor that is being read
  std::string field_;
  std::optional<std::int64_t> begin_, end_;
  bool has_dtype_ = false, has_shape_ = false, in_list_ = false;
  int depth_ = 0;
};

/// Checks that the tensors' bytes neither overlap nor leave holes, which the format forbids.
void check_cover(const std::vector<Tensor>& tensors, std::int64_t data_bytes, const std::string& file) {
  std::int64_t at = 0;
  for (const Tensor& t : tensors) {
    if (t.begin != at)
      fail(file, fmt::format("tensor {}: its data begins at {}, the one before ends at {}", shown(t.name),
                             t.begin, at));
    at = t.begin + t.bytes;
  }
  if (at != data_bytes)
    fail(file,
         fmt::format("its tensors end at byte {} of {} bytes of data (is it truncated?)", at, data_bytes));
}

}  // namespace

std::string shown(std::string_view name) {
  constexpr std::size_t longest = 120;
  return name.size() <= longest ? weft::quoted(name)
                                : weft::quoted(std::string(name.substr(0, longest)) + "...");
}

std::string shown(const std::vector<std::int64_t>& shape) {
  constexpr std::size_t most = 8;
  const auto end = shape.begin() + static_cast<std::ptrdiff_t>(std::min(most, shape.size()));
  return fmt::format("[{}{}]", fmt::join(shape.begin(), end, ", "), shape.size() > most ? ", ..." : "");
}

std::int64_t header_length(std::string_view first_bytes, std::uint64_t file_bytes, const std::string& name) {
  if (first_bytes.size() < length_bytes || file_bytes < length_bytes)
    fail(name, fmt::format("{} bytes are no safetensors file", file_bytes));
  std::uint64_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;)
    length = length << 8U | static_cast<unsigned char>(first_bytes[i]);
  if (length > static_cast<std::uint64_t>(max_header_bytes))
    fail(name, fmt::format("a header of {} bytes (at most {} are read; is it a safetensors file?)", length,
                           max_header_bytes));
  if (length > file_bytes - length_bytes)
    fail(name, fmt::format("a header of {} bytes in a file of {} (is it truncated?)", length, file_bytes));
  return static_cast<std::int64_t>(length);
}

Header parse_header(std::string_view bytes, std::uint64_t file_bytes, const std::string& name) {
  const std::int64_t length = header_length(bytes, file_bytes, name);
  if (file_bytes > static_cast<std::uint64_t>(INT64_MAX)) fail(name, "more bytes than a file can have");
  if (bytes.size() - length_bytes < static_cast<std::size_t>(length))
    fail(name, fmt::format("its header of {} bytes is truncated", length));
  const std::string_view text = bytes.substr(length_bytes, static_cast<std::size_t>(length));
  if (text.empty() || text.front() != '{') fail(name, "its header does not begin with '{'");
  Header header;
  header.data_begin = length_bytes + length;
  const std::int64_t data_bytes = static_cast<std::int64_t>(file_bytes) - header.data_begin;
  HeaderReader reader(data_bytes);
  if (!json::sax_parse(text.begin(), text.end(), &reader)) fail(name, reader.problem());
  header.tensors = reader.take();
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
  });
  check_cover(header.tensors, data_bytes, name);
  return header;
}

std::string header_text(const std::vector<Tensor>& tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  for (const Tensor& t : tensors) {
    nlohmann::ordered_json& one = header[t.name];
    one["dtype"] = t.dtype;
    one["shape"] = t.shape;
    one["data_offsets"] = {t.begin, t.begin + t.bytes};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length(length_bytes, '\0');
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<char>(text.size() >> (8 * i) & 255U);
  return length + text;
}

}  // namespace weft::hf
