#include "train/generate.hpp"

#include <filesystem>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "ckpt/load.hpp"
#include "compile/programs.hpp"
#include "data/tokenizer.hpp"
#include "exec/scratch.hpp"
#include "runtime/inputs.hpp"
#include "train/checkpointing.hpp"

namespace weft::train {
namespace {

std::string resolve_checkpoint(const std::string& path) {
  if (std::filesystem::exists(path + "/" + ckpt::manifest_name)) return path;
  const auto newest = ckpt::find_latest(path);
  WEFT_VALIDATE(newest.has_value(),
                "{}: no checkpoint here (no {} in it, and no whole step-N below it); give a checkpoint or a "
                "run's checkpoints directory",
                path, ckpt::manifest_name);
  return *newest;
}

/// A checkpoint's model on a single rank.
class Generator {
 public:
  Generator(comm::World& world, const ckpt::Manifest& manifest, Deck deck)
      : deck_(std::move(deck)), session_(deck_, world), buffers_(1, deck_.data.seq) {
    plan::Plan plan = compile::logits_plan(deck_, exec::scratch_query(session_.matmuls()));
    session_.reserve([&] { return std::vector<const plan::Plan*>{&plan}; });
    executor_ = session_.bind(std::move(plan));
    runtime::ModelState state(session_, executor_->plan());
    state.restore([&](std::span<const ckpt::StateSlice> slices, const ckpt::Put& put) {
      ckpt::load(manifest, state.units(), slices, put);
    });
    state.publish();
    runtime::upload_rope_table(session_, deck_);
    for (std::size_t i = 0; i < buffers_.positions.size(); ++i)
      buffers_.positions[i] = static_cast<std::int32_t>(i);
  }

  /// The logits of the token that follows `context`, of which the last data.seq tokens are seen.
  std::span<const float> next(const std::vector<std::int32_t>& context) {
    const std::size_t seq = buffers_.tokens.size(), n = std::min(seq, context.size());
    // The zeros stand behind the last token, where causal attention does not look.
    std::fill(buffers_.tokens.begin(), buffers_.tokens.end(), 0);
    std::copy(context.end() - static_cast<std::ptrdiff_t>(n), context.end(), buffers_.tokens.begin());
    buffers_.begin_step();
    buffers_.upload(session_, 0);
    executor_->run(exec::Run::full);
    copy_row(n - 1);
    return logits_;
  }

 private:
  void copy_row(std::size_t row) {
    const auto vocab = static_cast<std::size_t>(deck_.model.vocab);
    logits_.resize(vocab);
    const DType type = deck_.precision.params;
    const std::byte* device = session_.memory().storage(model::logits_name) + row * vocab * size_of(type);
    if (type == DType::f32) {
      kernels::copy_to_host(session_.space(), logits_.data(), device, vocab * sizeof(float));
      return;
    }
    std::vector<bf16> host(vocab);
    kernels::copy_to_host(session_.space(), host.data(), device, vocab * sizeof(bf16));
    for (std::size_t i = 0; i < vocab; ++i) logits_[i] = to_float(host[i]);
  }

  Deck deck_;
  runtime::Session session_;
  runtime::MicrobatchBuffers buffers_;
  std::unique_ptr<exec::Executor> executor_;
  std::vector<float> logits_;
};

}  // namespace

void generate(const GenerateOptions& options, const std::function<void(std::string_view)>& print) {
  validate(options.sampling);
  const ckpt::Manifest manifest = ckpt::read_manifest(resolve_checkpoint(options.checkpoint));
  Deck deck = parse_deck_text(manifest.run.deck, manifest.dir);
  deck.parallel.mesh = {{"data", 1}};
  const auto tokenizer = data::open_tokenizer(options.tokenizer);
  WEFT_VALIDATE(tokenizer->vocab() <= deck.model.vocab,
                "--tokenizer {}: its vocabulary has {} entries, the model's {}; give the tokenizer that made "
                "the training data",
                options.tokenizer, tokenizer->vocab(), deck.model.vocab);
  const auto world = comm::make_self_world();
  Generator generator(*world, manifest, std::move(deck));
  std::vector<std::int32_t> context{tokenizer->end_of_document()};  // what stands before a document
  for (std::int32_t id : tokenizer->encode(options.prompt)) context.push_back(id);
  print(options.prompt);
  const RandomStream stream(options.seed, "sample");
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const std::span<const float> logits =
        generator.next(context).first(static_cast<std::size_t>(tokenizer->vocab()));
    const auto id = static_cast<std::int32_t>(
        sample_token(logits, options.sampling, stream, static_cast<std::uint64_t>(i)));
    if (id == tokenizer->end_of_document()) break;
    print(tokenizer->text_of(id));
    context.push_back(id);
  }
}

}  // namespace weft::train
