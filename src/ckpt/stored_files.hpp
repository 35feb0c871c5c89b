// Whether the files that a manifest names are there, and what it means when one is not: damage, or a host
// that does not see what rank 0 has seen.
#pragma once

#include <string>

#include "ckpt/hooks.hpp"
#include "ckpt/manifest.hpp"
#include "io/file.hpp"

namespace weft::ckpt {

/// Collective: rank 0 looks whether all files are there with their sizes. Returns a line about the first that
/// is not; it is empty when all are. Throws Unreadable. All ranks get or throw the same.
std::string look_at_files(Manifest& manifest, const Hooks& hooks);

namespace detail {

/// Throws Incomplete that names the first file of the checkpoint that is missing or has another size.
void check_files(const Manifest& manifest);
/// Call it where an Incomplete about a file of the checkpoint was caught: throws it again, or as Unreadable
/// when files_seen says that it is no damage.
[[noreturn]] void rethrow(const Manifest& manifest, const io::Incomplete& incomplete);

}  // namespace detail
}  // namespace weft::ckpt
