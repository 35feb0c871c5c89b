// The one list of all keys. Parsing, printing, --schema and docs/deck.md all use it.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "deck/deck.hpp"

namespace weft::deck {

/// The member of a Deck that a key is bound to; its type is the key's type.
using Slot =
    std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<std::string>*,
                 std::vector<std::int64_t>*, std::vector<MeshAxis>*, DType*, LrDecay*, ShardMode*,
                 PipelineKind*, ReduceOrder*, F32Products*, GradientFormat*, Float8Scales*, Regather*,
                 Alternate*, Recompute*, Bucketing*, Accumulation*, CudaGraph*, Nonfinite*, NanSearch*>;

enum class Need : std::uint8_t { optional, required };
/// A double that may be written with units: seconds as "2h30m", bytes as "4GiB".
enum class Form : std::uint8_t { plain, duration, bytes };

/// The values a number may have; an open end excludes the bound itself.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;

  bool holds(double x) const { return (low_open ? x > low : x >= low) && (high_open ? x < high : x <= high); }
};

struct Key {
  std::string_view path;  ///< "model.rope_scaling.factor"
  Slot (*slot)(Deck&) = nullptr;
  Need need = Need::optional;
  Range range = {};
  Form form = Form::plain;
  std::string_view derived_default = {};  ///< the default in words, where it follows from other keys
  std::string_view doc = {};

  std::string_view table() const { return path.substr(0, path.rfind('.')); }
  std::string_view name() const { return path.substr(path.rfind('.') + 1); }
};

struct Table {
  std::string_view path;
  std::string_view doc;
};

std::span<const Table> tables();  ///< in the order in which they are printed
std::span<const Key> keys();      ///< grouped by table, in the same order
const Key* find_key(std::string_view path);
const Table* find_table(std::string_view path);

/// The words by which the deck spells the choices of an enum. For DType, those that `precision` takes.
template <class E>
using Choices = std::span<const std::pair<E, std::string_view>>;
Choices<DType> choices(DType);
Choices<LrDecay> choices(LrDecay);
Choices<ShardMode> choices(ShardMode);
Choices<PipelineKind> choices(PipelineKind);
Choices<ReduceOrder> choices(ReduceOrder);
Choices<F32Products> choices(F32Products);
Choices<GradientFormat> choices(GradientFormat);
Choices<Float8Scales> choices(Float8Scales);
Choices<Regather> choices(Regather);
Choices<Alternate> choices(Alternate);
Choices<Recompute> choices(Recompute);
Choices<Bucketing> choices(Bucketing);
Choices<Accumulation> choices(Accumulation);
Choices<CudaGraph> choices(CudaGraph);
Choices<Nonfinite> choices(Nonfinite);
Choices<NanSearch> choices(NanSearch);

template <class E>
std::string choice_list(E e) {
  std::string list;
  for (const auto& [value, name] : choices(e)) list.append(list.empty() ? "" : ", ").append(name);
  return list;
}

/// The range in words: "1 to 65536", "at least 0", "above 0 and below 1"; empty when anything goes.
std::string range_text(const Range& range);
/// The type as the documentation calls it: "integer", "one of ddp, zero1, ...".
std::string type_text(const Key& key);
/// "required", or the default as a deck would have it, or in words, between `quote`s.
std::string default_text(const Key& key, std::string_view quote = "");
/// The words that the key's value may be: a choice's, "true" and "false", or none in particular.
std::vector<std::string_view> words_of(const Key& key);

}  // namespace weft::deck
