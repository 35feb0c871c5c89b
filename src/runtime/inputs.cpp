#include "runtime/inputs.hpp"

#include "base/device.hpp"
#include "kernels/rope.hpp"

namespace weft::runtime {

std::span<const std::int32_t> MicrobatchBuffers::own(const Session& session,
                                                     const std::vector<std::int32_t>& whole) {
  const auto ranks = static_cast<std::size_t>(session.mesh().size(context_axis)),
             rank = static_cast<std::size_t>(session.context_rank());
  if (ranks == 1) return whole;
  const std::size_t length = seq_ / (2 * ranks);
  own_.clear();
  for (const std::size_t section : {rank, 2 * ranks - 1 - rank})
    for (std::size_t sequence = 0; sequence < whole.size(); sequence += seq_) {
      const auto first = whole.begin() + static_cast<std::ptrdiff_t>(sequence + section * length);
      own_.insert(own_.end(), first, first + static_cast<std::ptrdiff_t>(length));
    }
  return own_;
}

void upload_step(Session& session, data::BatchSource& batches, std::int64_t step, std::int64_t rounds,
                 MicrobatchBuffers& buffers) {
  TokenRows* const rows = session.token_rows();
  buffers.begin_step(rounds);
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::int64_t microbatch = round * session.batch_ranks() + session.batch_rank();
    batches.fill(step, microbatch, buffers.tokens.data(), buffers.targets.data(), buffers.positions.data());
    buffers.upload(session, static_cast<int>(round));
    if (rows != nullptr) rows->add(static_cast<int>(round), buffers.own(session, buffers.tokens));
  }
  if (rows != nullptr) rows->exchange();
}

void upload_rope_table(Session& session, const Deck& deck) {
  if (!session.memory().has(model::rope_name)) return;  // a stage without a layer
  const std::int64_t head_dim = deck.model.dim / deck.model.heads;
  const RopeScalingDeck& s = deck.model.rope_scaling;
  kernels::RopeScaling scaling;
  scaling.enabled = s.factor != 1;
  scaling.factor = static_cast<float>(s.factor);
  scaling.low_freq_factor = static_cast<float>(s.low_freq_factor);
  scaling.high_freq_factor = static_cast<float>(s.high_freq_factor);
  scaling.original_max_position = s.original_max_position;
  void* const storage = session.memory().storage(model::rope_name);
  const auto fill = [&](float* table) {
    kernels::fill_rope_table(table, deck.data.seq, head_dim, static_cast<float>(deck.model.rope_theta),
                             scaling);
  };
  if (device_is_host())
    return fill(static_cast<float*>(storage));  // a second table would be no part of the plan
  std::vector<float> table(static_cast<std::size_t>(deck.data.seq * head_dim));
  fill(table.data());
  kernels::copy_to_device(session.space(), storage, table.data(), table.size() * sizeof(float));
}

}  // namespace weft::runtime
