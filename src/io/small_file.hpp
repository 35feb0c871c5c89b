// Reads and replaces small files as a whole, and makes the directories that they lie in.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/atomic_file.hpp"

namespace weft::io {

/// The text of a file; nothing when there is no such file. Throws Error(environment) when it is there and
/// cannot be read.
std::optional<std::string> read_if_there(const std::string& path);

/// Puts `text` in the place of `path` by an AtomicFile: what was there stays until the new file is whole.
/// Throws as AtomicFile does, and then leaves nothing else behind.
void replace_file(const std::string& path, std::string_view text, Named named = Named::by_weft,
                  Sync sync = Sync::yes);

/// Makes a directory and those above it that are missing. Throws Error(environment).
void make_directories(const std::string& path);

}  // namespace weft::io
