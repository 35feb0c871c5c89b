// The command `weft sample`.
#include <cstdio>

#include "cli/commands.hpp"
#include "kernels/space.hpp"
#include "train/generate.hpp"

namespace weft::cli {
namespace {

void sample(const train::GenerateOptions& options) {
  kernels::initialize();
  train::generate(options, [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
  std::fputc('\n', stdout);
  kernels::finalize();
}

}  // namespace

void add_sample(CLI::App& app) {
  CLI::App* command = app.add_subcommand("sample", "Write text with a trained model");
  auto o = std::make_shared<train::GenerateOptions>();
  command
      ->add_option("--checkpoint", o->checkpoint,
                   "A checkpoint, or a run's checkpoints directory (its newest)")
      ->required();
  command
      ->add_option("--tokenizer", o->tokenizer,
                   "'byte' or the SentencePiece model that made the training data")
      ->required();
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
  command->add_option("--seed", o->seed, "Seed of the draws")->capture_default_str();
  command->callback([o] { sample(*o); });
}

}  // namespace weft::cli
