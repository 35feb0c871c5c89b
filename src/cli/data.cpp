// The command `weft data`: tokenize and show.
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string_view>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/quoted.hpp"
#include "cli/commands.hpp"
#include "data/describe.hpp"
#include "data/prepare.hpp"
#include "data/tokenizer.hpp"
#include "deck/suggest.hpp"

namespace weft::cli {
namespace {

struct ShowArguments {
  std::string file, tokenizer, end_of_document;
  std::int64_t first = 64;
};

void show(const ShowArguments& arguments) {
  data::DescribeOptions options;
  options.first = arguments.first;
  std::unique_ptr<data::Tokenizer> tokenizer;
  if (!arguments.tokenizer.empty())
    tokenizer = data::open_tokenizer(arguments.tokenizer, arguments.end_of_document);
  options.tokenizer = tokenizer.get();
  std::fputs(data::describe(arguments.file, options).c_str(), stdout);
}

/// A separator that is a slip of a known word stands nowhere, and all text becomes one document.
void warn_of_separator(const std::string& separator) {
  constexpr std::array<std::string_view, 2> words{"blank-line", "file"};
  const std::string_view meant = deck::nearest_word(separator, words);
  const bool slip = !meant.empty() && meant != separator;
  // A warning of the log has a rank, and here there is none.
  const std::string what_to_do =
      slip ? deck::did_you_mean(meant) : "; give another one, or --separator file if that is meant";
  log::tell(stderr,
            fmt::format("weft: warning: the separator '{}' stands in none of the texts, so each file is one "
                        "document{}\n",
                        one_line(separator), what_to_do));
}

void add_tokenize(CLI::App& command) {
  CLI::App* tokenize =
      command.add_subcommand("tokenize", "Turn text into token files for training and validation");
  auto o = std::make_shared<data::PrepareOptions>();
  tokenize->add_option("TEXT", o->text.files, "Text files (.gz, .dz, .jsonl too), or - for standard input")
      ->required();
  tokenize->add_option("--train", o->train, "Token file to write for training")->required();
  tokenize->add_option("--valid", o->valid,
                       "Token file to write for validation; without it all documents are for training");
  const CLI::Option* const fraction =
      tokenize
          ->add_option("--valid-fraction", o->valid_fraction, "Share of the documents kept for validation")
          ->capture_default_str();
  tokenize
      ->add_option("--separator", o->text.separator,
                   "What stands between documents: blank-line, file, or a string")
      ->capture_default_str();
  tokenize
      ->add_option(
          "--tokenizer", o->tokenizer,
          "byte, sentencepiece (learns one from the text), a SentencePiece model, or a tokenizer.json "
          "(byte-level BPE: Llama 3, GPT-2, Qwen ...)")
      ->capture_default_str();
  add_end_of_document_option(*tokenize, o->end_of_document);
  const CLI::Option* const model = tokenize->add_option(
      "--model", o->model, "Where a learnt SentencePiece model goes (default: beside TRAIN)");
  const CLI::Option* const vocab =
      tokenize->add_option("--vocab", o->training.vocab, "Vocabulary of a learnt tokenizer")
          ->capture_default_str();
  tokenize->add_option("--seed", o->seed, "Seed of the split")
      ->check(whole_number_from(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  tokenize->add_flag("--force", o->force,
                     "Replace a file that is no token file, and a model of other content");
  tokenize->callback([o, fraction, model, vocab] {
    WEFT_VALIDATE(fraction->count() == 0 || !o->valid.empty(),
                  "--valid-fraction has no effect (without --valid all documents are for training); name a "
                  "file by --valid, or leave it out");
    for (const CLI::Option* option : {model, vocab})
      WEFT_VALIDATE(option->count() == 0 || o->tokenizer == "sentencepiece",
                    "{} has no effect (the tokenizer '{}' is not learnt); add --tokenizer sentencepiece, or "
                    "leave it out",
                    option->get_name(), o->tokenizer);
    const data::PrepareReport report = data::prepare(*o);
    std::fputs(data::to_text(report).c_str(), stdout);
    if (!report.separator_found) warn_of_separator(o->text.separator);
  });
}

}  // namespace

void add_data(CLI::App& app) {
  CLI::App* command = app.add_subcommand("data", "Prepare and look at token files");
  command->require_subcommand(1);
  add_tokenize(*command);
  CLI::App* show_command = command->add_subcommand("show", "What is in a token file");
  auto arguments = std::make_shared<ShowArguments>();
  show_command->add_option("FILE", arguments->file, "A token file")->required();
  const CLI::Option* const tokenizer =
      show_command->add_option("--tokenizer", arguments->tokenizer,
                               "Decode the first tokens: 'byte', a SentencePiece model or a tokenizer.json");
  CLI::Option* const end = add_end_of_document_option(*show_command, arguments->end_of_document);
  show_command->add_option("--first", arguments->first, "Tokens to show")
      ->check(whole_number_from(0))
      ->capture_default_str();
  show_command->callback([arguments, tokenizer, end] {
    WEFT_VALIDATE(
        end->count() == 0 || tokenizer->count() > 0,
        "--end-of-document has no effect (without --tokenizer nothing is decoded); leave it out, or "
        "name the tokenizer");
    show(*arguments);
  });
}

}  // namespace weft::cli
