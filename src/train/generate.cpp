#include "train/generate.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "comm/agree.hpp"
#include "compile/programs.hpp"
#include "data/sequences.hpp"
#include "data/tokenizer.hpp"
#include "exec/scratch.hpp"
#include "runtime/inputs.hpp"
#include "train/checkpointed_model.hpp"
#include "train/data_files.hpp"

namespace weft::train {
namespace {

/// A checkpoint's model over all ranks.
class Generator {
 public:
  Generator(comm::World& world, Deck deck)
      : deck_(std::move(deck)), session_(deck_, world), buffers_(1, deck_.data.seq) {}

  /// Collective: takes the model's state from a checkpoint. Comes first.
  void load(const ckpt::Manifest& manifest) {
    comm::World& world = session_.world();
    const auto make_plan = [&] {
      plan::Plan plan;
      comm::agree(world, [&] {
        plan = compile::logits_plan(deck_, session_.mesh(), session_.mesh().pipe_rank(world.rank()),
                                    exec::scratch_query(session_.matmuls()));
      });
      return plan;
    };
    load_model(session_, deck_, manifest, make_plan, executor_);
  }

  /// Collective: the logits of the token that follows `context`, of which the last data.seq tokens are seen,
  /// and where training saw documents alone, those behind the last `end_of_document`; on rank 0, and none on
  /// the others.
  std::span<const float> next(const std::vector<std::int32_t>& context, std::int32_t end_of_document) {
    const std::size_t n =
        fill_window(context, deck_.data.document_mask ? std::optional(end_of_document) : std::nullopt,
                    buffers_.tokens, buffers_.positions);
    buffers_.begin_step();
    buffers_.upload(session_, 0);
    executor_->run(exec::Run::full);
    // Each rank of the last stage has a part of the vocabulary, in the order of the ranks. Where ranks share
    // the sequence, only those that have its last token send their part.
    std::string own;
    const std::int64_t row = session_.memory().has(model::logits_name) ? own_row(n - 1) : -1;
    if (row >= 0) {
      copy_row(static_cast<std::size_t>(row));
      own.assign(reinterpret_cast<const char*>(logits_.data()), logits_.size() * sizeof(float));
    }
    logits_.clear();
    for (const std::string& part : session_.world().gather_strings(own)) {
      const std::size_t at = logits_.size();
      logits_.resize(at + part.size() / sizeof(float));
      std::copy(part.begin(), part.end(), reinterpret_cast<char*>(logits_.data() + at));
    }
    return logits_;
  }

 private:
  /// Where this rank has the token at `place` of the sequence; -1: another rank has it.
  std::int64_t own_row(std::size_t place) {
    std::vector<std::int32_t> places(buffers_.tokens.size());
    std::iota(places.begin(), places.end(), 0);
    const auto own = buffers_.own(session_, places);
    const auto at = std::find(own.begin(), own.end(), static_cast<std::int32_t>(place));
    return at == own.end() ? -1 : at - own.begin();
  }

  void copy_row(std::size_t row) {
    const auto vocab = static_cast<std::size_t>(deck_.model.vocab / session_.mesh().size(tensor_axis));
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

std::size_t fill_window(std::span<const std::int32_t> context, std::optional<std::int32_t> end_of_document,
                        std::span<std::int32_t> tokens, std::span<std::int32_t> positions) {
  const std::size_t n = std::min(tokens.size(), context.size());
  // The zeros stand behind the last token, where causal attention does not look. (In Float8 with one scale
  // for all rows they have a part in it.)
  std::fill(tokens.begin(), tokens.end(), 0);
  std::copy(context.end() - static_cast<std::ptrdiff_t>(n), context.end(), tokens.begin());
  if (end_of_document)
    data::number_in_documents(tokens, *end_of_document, positions.data());
  else
    std::iota(positions.begin(), positions.end(), 0);
  return n;
}

namespace {

/// Writes the prompt, and as many tokens as are asked for.
void write(Generator& generator, const data::Tokenizer& tokenizer, const GenerateOptions& options,
           comm::World& world, const std::function<void(std::string_view)>& print) {
  const auto print_once = [&](std::string_view text) {
    if (world.rank() == 0) print(text);
  };
  // What stands before a document: its own beginning, or the end of the one before.
  const bool begins = tokenizer.begin_of_document() >= 0;
  std::vector<std::int32_t> context{begins ? tokenizer.begin_of_document() : tokenizer.end_of_document()};
  for (std::int32_t id : tokenizer.encode(options.prompt)) context.push_back(id);
  print_once(options.prompt);
  const RandomStream stream(options.seed, "sample");
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const std::span<const float> logits = generator.next(context, tokenizer.end_of_document());
    std::string drawn;
    if (!logits.empty())
      drawn = std::to_string(sample_token(logits.first(static_cast<std::size_t>(tokenizer.vocab())),
                                          options.sampling, stream, static_cast<std::uint64_t>(i)));
    const auto id = static_cast<std::int32_t>(std::stoi(world.broadcast(drawn, 0)));
    if (id == tokenizer.end_of_document()) break;
    print_once(tokenizer.text_of(id));
    context.push_back(id);
  }
}

}  // namespace

void generate(const GenerateOptions& options, comm::World& world,
              const std::function<void(std::string_view)>& print,
              const std::function<void(const std::exception&)>& on_error) {
  comm::agree(world, [&] { validate(options.sampling); });
  const ckpt::Manifest manifest = choose_checkpoint(options.checkpoint, world);
  Deck deck;
  std::unique_ptr<data::Tokenizer> tokenizer;
  comm::agree(world, [&] {
    deck = parse_saved_deck(manifest.run.deck, manifest.dir);
    const int groups = world.size() / group_size(options.tensor, options.context, world.size());
    deck.parallel.mesh = {{std::string(data_axis), 1},
                          {std::string(pipe_axis), groups},
                          {std::string(context_axis), options.context},
                          {std::string(tensor_axis), options.tensor}};
    deck.pipeline = {};
    tokenizer = data::open_tokenizer(options.tokenizer, options.end_of_document);
    WEFT_VALIDATE(
        tokenizer->vocab() <= deck.model.vocab,
        "--tokenizer {}: its vocabulary has {} entries, the model's {}; give the tokenizer that made "
        "the training data",
        options.tokenizer, tokenizer->vocab(), deck.model.vocab);
    if (world.rank() == 0) check_tokenizer_of_data(manifest.run.data, *tokenizer, options.tokenizer);
  });
  Generator generator(world, std::move(deck));
  try {
    generator.load(manifest);
    write(generator, *tokenizer, options, world, print);
  } catch (const std::exception& e) {
    if (on_error) on_error(e);
    throw;
  }
}

}  // namespace weft::train
