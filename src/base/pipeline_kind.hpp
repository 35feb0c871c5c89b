// The kinds of pipeline schedules (pipe/pipeline_schedule.hpp), as the deck names them.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

enum class PipelineKind : std::uint8_t {
  gpipe,        ///< all forwards, then all backwards (Huang et al., 2019)
  one_f_one_b,  ///< a forward and a backward in turn: a rank holds as many microbatches as follow it
  interleaved,  ///< 1f1b over several stages a rank (Narayanan et al., 2021)
  zb_h1,        ///< 1f1b whose weight gradients are made where a rank would wait (Qi et al., 2023)
  zbv           ///< two stages a rank in the shape of a V, weight gradients as in zb_h1 (Qi et al., 2023)
};

constexpr std::string_view name_of(PipelineKind kind) {
  switch (kind) {
    case PipelineKind::gpipe: return "gpipe";
    case PipelineKind::one_f_one_b: return "1f1b";
    case PipelineKind::interleaved: return "interleaved";
    case PipelineKind::zb_h1: return "zb_h1";
    case PipelineKind::zbv: return "zbv";
  }
  return "?";
}

/// Whether weight gradients are apart from the gradients that the stage before waits for.
constexpr bool splits_backward(PipelineKind kind) {
  return kind == PipelineKind::zb_h1 || kind == PipelineKind::zbv;
}

/// Whether the stages go to the last rank and come back (StagePlaces).
constexpr bool folds(PipelineKind kind) {
  return kind == PipelineKind::zbv;
}

/// Whether a rank can have so many stages.
constexpr bool serves_chunks(PipelineKind kind, std::int64_t chunks) {
  if (kind == PipelineKind::zbv) return chunks == 2;
  return chunks == 1 || kind == PipelineKind::interleaved;
}

}  // namespace weft
