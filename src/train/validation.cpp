#include "train/validation.hpp"

#include <algorithm>
#include <array>
#include <numbers>
#include <utility>

#include "base/clock.hpp"
#include "ops/storages.hpp"
#include "runtime/inputs.hpp"

namespace weft::train {

Validation::Validation(runtime::Session& session, exec::Executor& executor, data::ValidationSource source,
                       std::int64_t batch, std::int64_t seq)
    : session_(session),
      executor_(executor),
      source_(std::move(source)),
      batch_(batch),
      seq_(seq),
      rounds_(executor.plan().graph.rounds()) {}

ValidationResult Validation::run() {
  const double start = seconds_now();
  runtime::MicrobatchBuffers buffers(batch_, seq_);
  double loss = 0, count = 0;
  std::int64_t next = 0;  // the first microbatch of the next round
  while (next < source_.microbatches()) {
    buffers.begin_step(rounds_);
    for (int round = 0; round < rounds_; ++round, next += session_.batch_ranks()) {
      source_.fill(next + session_.batch_rank(), buffers.tokens.data(), buffers.targets.data(),
                   buffers.positions.data());
      buffers.upload(session_, round);
    }
    executor_.run(exec::Run::full);
    for (int round = 0; round < rounds_; ++round) {
      std::array<double, 2> totals{};
      kernels::copy_to_host(session_.space(), totals.data(),
                            session_.memory().storage(ops::totals_name_of(round)), sizeof totals);
      loss += totals[0];
      count += totals[1];
    }
  }
  ValidationResult result;
  result.loss = loss / count;
  result.bits_per_byte = loss / std::numbers::ln2 / static_cast<double>(source_.total_bytes());
  result.tokens = static_cast<std::int64_t>(count);
  result.seconds = seconds_now() - start;
  return result;
}

}  // namespace weft::train
