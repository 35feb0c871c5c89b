#include "train/validation.hpp"

#include <array>
#include <numbers>
#include <utility>

#include "base/clock.hpp"
#include "ops/storages.hpp"
#include "runtime/inputs.hpp"

namespace weft::train {

Validation::Validation(runtime::Session& session, exec::Executor& executor, data::ValidationSource source,
                       std::int64_t batch, std::int64_t seq)
    : session_(session), executor_(executor), source_(std::move(source)), batch_(batch), seq_(seq) {}

ValidationResult Validation::run() {
  const double start = seconds_now();
  runtime::MicrobatchBuffers buffers(batch_, seq_);
  double loss = 0, count = 0;
  for (std::int64_t first = 0; first < source_.microbatches(); first += session_.batch_ranks()) {
    source_.fill(first + session_.batch_rank(), buffers.tokens.data(), buffers.targets.data(),
                 buffers.positions.data());
    buffers.begin_step();
    buffers.upload(session_, 0);
    executor_.run(exec::Run::full);
    std::array<double, 2> totals{};
    kernels::copy_to_host(session_.space(), totals.data(), session_.memory().storage(ops::totals_name),
                          sizeof totals);
    loss += totals[0];
    count += totals[1];
  }
  ValidationResult result;
  result.loss = loss / count;
  result.bits_per_byte = loss / std::numbers::ln2 / static_cast<double>(source_.total_bytes());
  result.tokens = static_cast<std::int64_t>(count);
  result.seconds = seconds_now() - start;
  return result;
}

}  // namespace weft::train
