// The command `weft data`: tokenize, import and show.
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <string_view>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/quoted.hpp"
#include "cli/commands.hpp"
#include "data/describe.hpp"
#include "data/import.hpp"
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

/// Adds the options that say where documents go. What is returned checks them, and is called when all are
/// read.
std::function<void()> add_split_options(CLI::App& command, data::SplitOptions& options,
                                        const std::string& what_force_replaces) {
  command.add_option("--train", options.train, "Token file to write for training")->required();
  command.add_option("--valid", options.valid,
                     "Token file to write for validation; without it all documents are for training");
  const CLI::Option* const fraction = command
                                          .add_option("--valid-fraction", options.valid_fraction,
                                                      "Share of the documents kept for validation")
                                          ->capture_default_str();
  command.add_option("--seed", options.seed, "Seed of the split")
      ->check(whole_number_from(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  command.add_flag("--force", options.force, "Replace " + what_force_replaces);
  return [&options, fraction] {
    WEFT_VALIDATE(fraction->count() == 0 || !options.valid.empty(),
                  "--valid-fraction has no effect (without --valid all documents are for training); name a "
                  "file by --valid, or leave it out");
  };
}

void add_tokenize(CLI::App& command) {
  CLI::App* tokenize =
      command.add_subcommand("tokenize", "Turn text into token files for training and validation");
  auto o = std::make_shared<data::PrepareOptions>();
  tokenize->add_option("TEXT", o->text.files, "Text files (.gz, .dz, .jsonl too), or - for standard input")
      ->required();
  const auto check_split_options =
      add_split_options(*tokenize, *o, "a file that is no token file, and a model of other content");
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
  tokenize->callback([o, check_split_options, model, vocab] {
    check_split_options();
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

void add_token_import(CLI::App& command) {
  CLI::App* tokens = command.add_subcommand("import", "Turn tokens of other codes into token files");
  auto o = std::make_shared<data::ImportOptions>();
  tokens
      ->add_option(
          "TOKENS", o->files,
          "Megatron-LM's PREFIX.bin (PREFIX.idx beside it), llm.c's .bin, or with --raw nothing but tokens")
      ->required();
  tokens
      ->add_option("--tokenizer", o->tokenizer,
                   "The tokenizer that made them: byte, a SentencePiece model or a tokenizer.json")
      ->required();
  add_end_of_document_option(*tokens, o->end_of_document);
  tokens->add_option("--raw", o->raw_bytes, "Bytes of a token in files that have no header (nanoGPT: 2)")
      ->check(CLI::IsMember({2, 4}));
  const auto check_split_options = add_split_options(*tokens, *o, "a file that is no token file");
  tokens->callback([o, check_split_options] {
    check_split_options();
    const data::ImportReport report = data::import_tokens(*o);
    std::fputs(data::to_text(report).c_str(), stdout);
    if (report.never_ends)
      log::tell(stderr,
                fmt::format("weft: warning: token {}, which ends documents, is in none of the files, so they "
                            "are one document; is {} the tokenizer that made them? --end-of-document names "
                            "another token of a tokenizer.json\n",
                            report.end_of_document, report.tokenizer));
  });
}

}  // namespace

void add_data(CLI::App& app) {
  CLI::App* command = app.add_subcommand("data", "Prepare and look at token files");
  command->require_subcommand(1);
  add_tokenize(*command);
  add_token_import(*command);
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
