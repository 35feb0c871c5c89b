// The words by which the deck spells the choices of its enums.
#include <array>

#include "deck/schema.hpp"

namespace weft::deck {
namespace {

template <class E>
using Names = std::pair<E, std::string_view>;
constexpr std::array dtype_names{Names<DType>{DType::f32, "f32"}, Names<DType>{DType::bf16, "bf16"}};
constexpr std::array decay_names{
    Names<LrDecay>{LrDecay::constant, "constant"}, Names<LrDecay>{LrDecay::linear, "linear"},
    Names<LrDecay>{LrDecay::cosine, "cosine"}, Names<LrDecay>{LrDecay::wsd, "wsd"}};
constexpr std::array mode_names{
    Names<ShardMode>{ShardMode::ddp, "ddp"}, Names<ShardMode>{ShardMode::zero1, "zero1"},
    Names<ShardMode>{ShardMode::zero2, "zero2"}, Names<ShardMode>{ShardMode::fsdp, "fsdp"}};
constexpr std::array pipeline_names{
    Names<PipelineKind>{PipelineKind::gpipe, name_of(PipelineKind::gpipe)},
    Names<PipelineKind>{PipelineKind::one_f_one_b, name_of(PipelineKind::one_f_one_b)},
    Names<PipelineKind>{PipelineKind::interleaved, name_of(PipelineKind::interleaved)},
    Names<PipelineKind>{PipelineKind::zb_h1, name_of(PipelineKind::zb_h1)},
    Names<PipelineKind>{PipelineKind::zbv, name_of(PipelineKind::zbv)}};
constexpr std::array reduction_names{Names<ReduceOrder>{ReduceOrder::canonical, "canonical"},
                                     Names<ReduceOrder>{ReduceOrder::native, "native"}};
constexpr std::array f32_products_names{Names<F32Products>{F32Products::split, "split"},
                                        Names<F32Products>{F32Products::plain, "plain"}};
constexpr std::array gradient_format_names{Names<GradientFormat>{GradientFormat::e4m3, "e4m3"},
                                           Names<GradientFormat>{GradientFormat::e5m2, "e5m2"}};
constexpr std::array float8_scales_names{Names<Float8Scales>{Float8Scales::rowwise, "rowwise"},
                                         Names<Float8Scales>{Float8Scales::tensorwise, "tensorwise"}};
constexpr std::array regather_names{Names<Regather>{Regather::always, "always"},
                                    Names<Regather>{Regather::never, "never"},
                                    Names<Regather>{Regather::automatic, "auto"}};
constexpr std::array alternate_names{Names<Alternate>{Alternate::always, "always"},
                                     Names<Alternate>{Alternate::never, "never"},
                                     Names<Alternate>{Alternate::automatic, "auto"}};

constexpr std::array recompute_names{
    Names<Recompute>{Recompute::none, "none"}, Names<Recompute>{Recompute::full, "full"},
    Names<Recompute>{Recompute::selective, "selective"}, Names<Recompute>{Recompute::budget, "budget"}};
constexpr std::array bucketing_names{
    Names<Bucketing>{Bucketing::none, "none"}, Names<Bucketing>{Bucketing::manual, "manual"},
    Names<Bucketing>{Bucketing::greedy, "greedy"}, Names<Bucketing>{Bucketing::automatic, "auto"}};
constexpr std::array accumulation_names{Names<Accumulation>{Accumulation::each, "each"},
                                        Names<Accumulation>{Accumulation::once, "once"}};
constexpr std::array cuda_graph_names{Names<CudaGraph>{CudaGraph::automatic, "auto"},
                                      Names<CudaGraph>{CudaGraph::off, "off"}};
constexpr std::array nonfinite_names{Names<Nonfinite>{Nonfinite::stop, "stop"},
                                     Names<Nonfinite>{Nonfinite::skip, "skip"},
                                     Names<Nonfinite>{Nonfinite::rollback, "rollback"}};
constexpr std::array nan_search_names{Names<NanSearch>{NanSearch::off, "off"},
                                      Names<NanSearch>{NanSearch::locate, "locate"}};

template <class E>
std::string_view name_in_deck(E e) {
  for (const auto& [value, name] : choices(e))
    if (value == e) return name;
  return "?";
}

}  // namespace

Choices<DType> choices(DType) {
  return dtype_names;
}
Choices<LrDecay> choices(LrDecay) {
  return decay_names;
}
Choices<ShardMode> choices(ShardMode) {
  return mode_names;
}
Choices<PipelineKind> choices(PipelineKind) {
  return pipeline_names;
}
Choices<ReduceOrder> choices(ReduceOrder) {
  return reduction_names;
}
Choices<F32Products> choices(F32Products) {
  return f32_products_names;
}
Choices<GradientFormat> choices(GradientFormat) {
  return gradient_format_names;
}
Choices<Float8Scales> choices(Float8Scales) {
  return float8_scales_names;
}
Choices<Regather> choices(Regather) {
  return regather_names;
}
Choices<Alternate> choices(Alternate) {
  return alternate_names;
}
Choices<Recompute> choices(Recompute) {
  return recompute_names;
}
Choices<Bucketing> choices(Bucketing) {
  return bucketing_names;
}
Choices<Accumulation> choices(Accumulation) {
  return accumulation_names;
}
Choices<CudaGraph> choices(CudaGraph) {
  return cuda_graph_names;
}
Choices<Nonfinite> choices(Nonfinite) {
  return nonfinite_names;
}
Choices<NanSearch> choices(NanSearch) {
  return nan_search_names;
}

}  // namespace weft::deck

namespace weft {
std::string_view name_of(LrDecay decay) {
  return deck::name_in_deck(decay);
}
std::string_view name_of(ShardMode mode) {
  return deck::name_in_deck(mode);
}
std::string_view name_of(ReduceOrder reduction) {
  return deck::name_in_deck(reduction);
}
std::string_view name_of(F32Products products) {
  return deck::name_in_deck(products);
}
std::string_view name_of(Regather regather) {
  return deck::name_in_deck(regather);
}
std::string_view name_of(Alternate alternate) {
  return deck::name_in_deck(alternate);
}
std::string_view name_of(Recompute recompute) {
  return deck::name_in_deck(recompute);
}
std::string_view name_of(Bucketing bucketing) {
  return deck::name_in_deck(bucketing);
}
std::string_view name_of(Accumulation accumulation) {
  return deck::name_in_deck(accumulation);
}
std::string_view name_of(CudaGraph graph) {
  return deck::name_in_deck(graph);
}
std::string_view name_of(Nonfinite nonfinite) {
  return deck::name_in_deck(nonfinite);
}
std::string_view name_of(NanSearch search) {
  return deck::name_in_deck(search);
}
}  // namespace weft
