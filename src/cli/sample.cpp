// The command `weft sample`.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>

#include "cli/commands.hpp"
#include "cli/world.hpp"
#include "train/generate.hpp"

namespace weft::cli {
namespace {

void sample(const train::GenerateOptions& options, Context& context) {
  const auto world = make_training_world(context);
  const KernelsScope kernels;
  train::generate(
      options, *world,
      [](std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
      },
      [&world](const std::exception& e) { tell_at_once(e, *world); });
  if (world->rank() == 0) std::fputc('\n', stdout);
  world->barrier();
}

}  // namespace

void add_sample(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "sample", "Write text with a trained model; under mpirun or srun each rank holds some of its layers");
  auto o = std::make_shared<train::GenerateOptions>();
  add_checkpoint_option(*command, o->checkpoint);
  command
      ->add_option("--tokenizer", o->tokenizer,
                   "'byte', or the SentencePiece model or tokenizer.json that made the training data")
      ->required();
  add_end_of_document_option(*command, o->end_of_document);
  command->add_option("--prompt", o->prompt, "Text to continue");
  command->add_option("--tokens", o->tokens, "Most tokens to write")
      ->check(whole_number_from(1))
      ->capture_default_str();
  command
      ->add_option("--temperature", o->sampling.temperature,
                   "Divides the logits; 0 takes the likeliest token")
      ->capture_default_str();
  command->add_option("--top-k", o->sampling.top_k, "Keep the k likeliest tokens; 0 keeps all")
      ->capture_default_str();
  command->add_option("--top-p", o->sampling.top_p, "Keep the fewest tokens whose probabilities reach this")
      ->capture_default_str();
  add_sharing_options(*command, o->tensor, o->context, "layers");
  command->add_option("--seed", o->seed, "Seed of the draws")
      ->check(whole_number_from(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  command->callback([o, &context] { sample(*o, context); });
}

}  // namespace weft::cli
