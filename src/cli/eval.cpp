// The command `weft eval`.
#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>

#include "cli/commands.hpp"
#include "cli/world.hpp"
#include "deck/bytes.hpp"
#include "train/evaluate.hpp"

namespace weft::cli {
namespace {

CLI::Validator number_of_bytes() {
  const auto check = [](const std::string& text) {
    return deck::parse_bytes(text) ? std::string() : text + " is no size in bytes, as \"4GiB\" is";
  };
  return {check, "", "bytes"};
}

void evaluate(const train::EvaluateOptions& options, Context& context) {
  const auto world = make_training_world(context);
  const KernelsScope kernels;
  const train::Evaluation of =
      train::evaluate(options, *world, [&world](const std::exception& e) { tell_at_once(e, *world); });
  if (world->rank() == 0)
    fmt::print("{}: step {}\nloss {:.6f}, perplexity {:.4f}, {:.6f} bits a byte; {} tokens in {:.1f} s\n",
               of.checkpoint, of.step, of.result.loss, std::exp(of.result.loss), of.result.bits_per_byte,
               of.result.tokens, of.result.seconds);
  world->barrier();
}

}  // namespace

void add_eval(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "eval", "Compute a checkpoint's loss over token files; under mpirun or srun the ranks share the work");
  auto o = std::make_shared<train::EvaluateOptions>();
  add_checkpoint_option(*command, o->checkpoint);
  command->add_option("--data", o->data, "Token files, made by the training data's tokenizer")->required();
  command->add_option("--sequences", o->sequences, "Only the first so many sequences")
      ->check(whole_number_from(1, std::numeric_limits<std::int64_t>::max()));
  command->add_option("--batch", o->batch, "Sequences that a rank computes at once [the run's data.batch]")
      ->check(whole_number_from(1));
  command
      ->add_option_function<std::string>(
          "--memory-limit", [o](const std::string& text) { o->memory_limit = deck::parse_bytes(text); },
          "Refuse when a rank needs more memory than this; 0B: no limit but the host's [the run's "
          "run.memory_limit]")
      ->check(number_of_bytes());
  add_sharing_options(*command, o->tensor, o->context, "sequences");
  command->callback([o, &context] { evaluate(*o, context); });
}

}  // namespace weft::cli
