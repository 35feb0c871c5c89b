#include "ckpt/hooks.hpp"

#include "base/check.hpp"
#include "io/file.hpp"

namespace weft::ckpt {

Hooks single_rank() {
  return Hooks{.barrier = [] {},
               .broadcast = [](std::string text) { return text; },
               .gather = [](const std::string& text) { return std::vector{text}; },
               .all_true = [](bool ok) { return ok; }};
}

namespace detail {

namespace {

// The first character of what rank 0 sends to the others. Behind `failed` stands the exit code, as one
// character.
constexpr char made = 'm';
constexpr char failed = 'f';
constexpr char unreadable = 'u';

std::string attempt(const std::function<std::string()>& make) {
  try {
    return made + make();
  } catch (const io::Unreadable& e) {
    return unreadable + std::string(e.what());
  } catch (const std::exception& e) {
    return std::string{failed, static_cast<char>(exit_code_of(e))} + message_of(e);
  }
}

}  // namespace

std::string from_root(const Hooks& hooks, const std::function<std::string()>& make) {
  std::string told = hooks.broadcast(hooks.rank == 0 ? attempt(make) : std::string());
  if (told[0] == unreadable) throw io::Unreadable(told.substr(1));
  if (told[0] == failed) throw Error(static_cast<ExitCode>(told[1]), told.substr(2));
  told.erase(0, 1);
  return told;
}

void leave_together(const Hooks& hooks, const std::exception_ptr& problem) {
  if (hooks.all_true(problem == nullptr)) return;
  if (problem) std::rethrow_exception(problem);
  throw Error(ExitCode::bad_checkpoint, "");
}

}  // namespace detail
}  // namespace weft::ckpt
