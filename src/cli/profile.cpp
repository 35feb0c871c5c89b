// The command `weft profile`.
#include <cstdio>
#include <exception>
#include <optional>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/world.hpp"
#include "comm/agree.hpp"
#include "io/atomic_file.hpp"
#include "io/small_file.hpp"
#include "machine/profile.hpp"
#include "measure/machine.hpp"
#include "runtime/same.hpp"

namespace weft::cli {
namespace {

struct ProfileArguments {
  DeckArguments deck;
  std::string out = "machine.toml";
  bool out_is_given = false;
  measure::MachineOptions options;
};

/// A measurement on a few ranks of another host must not replace one of many by the default name alone.
void check_replaced(const std::string& path, const std::string& name) {
  const auto text = io::read_if_there(path);
  if (!text) return;
  std::string there;
  try {
    there = machine::parse_profile(*text, path).name;
  } catch (const Error& e) {
    throw Error(e.code(),
                fmt::format("{}; `weft profile` replaces no such file: remove it, or name a file by "
                            "--out, be it the same to replace it",
                            e.what()));
  }
  WEFT_VALIDATE(
      there == name,
      "{} is there already, and is of {} (this one would be of {}); name a file by --out, be it the "
      "same to replace it",
      path, there, name);
}

void profile(const ProfileArguments& arguments, Context& context) {
  const auto world = make_training_world(context);
  const bool with_deck = !arguments.deck.file.empty();
  Deck deck;
  std::optional<io::AtomicFile> file;  // on rank 0; it is opened before the minute that its content takes
  comm::agree(*world, [&] {
    WEFT_VALIDATE(with_deck || arguments.deck.sets.empty(), "weft profile: --set without a deck (give one)");
    if (with_deck) deck = parse_deck(arguments.deck.file, arguments.deck.sets);
    resolve_mesh(deck, world->size());
    if (world->rank() == 0) file.emplace(arguments.out, io::Named::by_user);
  });
  runtime::check_same_deck(*world, deck);
  const KernelsScope kernels;
  comm::agree(*world, [&] {
    if (file && !arguments.out_is_given)
      check_replaced(arguments.out, measure::name_of_machine(*world, deck.precision.f32_products));
  });
  runtime::Session session(deck, *world);
  const measure::Measured measured = [&] {
    try {
      return measure_machine(with_deck ? &deck : nullptr, session, arguments.options);
    } catch (const std::exception& e) {
      tell_at_once(e, *world);
    }
  }();
  comm::agree(*world, [&] {
    if (!file) return;
    const std::string text = print_profile(measured.profile);
    file->append(text.data(), text.size());
    file->commit();
  });
  if (world->rank() == 0)
    std::printf("%swritten: %s (schedule.profile of a deck names it)\n", summary(measured).c_str(),
                arguments.out.c_str());
  world->barrier();
}

}  // namespace

void add_profile(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "profile", "Measure this machine for plans: collectives, rates, and the kernels of a deck's step");
  auto arguments = std::make_shared<ProfileArguments>();
  add_deck_arguments(*command, arguments->deck);  // without a deck, only what needs none is measured
  CLI::Option* out = command->add_option("-o,--out", arguments->out, "The machine profile to write (TOML)")
                         ->capture_default_str();
  command->add_option("--seconds", arguments->options.seconds, "About how long the measurements may take")
      ->check(number_above_zero())
      ->capture_default_str();
  command->callback([arguments, out, &context] {
    arguments->out_is_given = out->count() > 0;
    profile(*arguments, context);
  });
}

}  // namespace weft::cli
