// Gives files names that are the same in every run of a program.
#pragma once

#include <array>

#include "faults/system_calls.hpp"

namespace weft::faults {

using Text = std::array<char, 4352>;

/// Sets the directories whose files count, separated by colons.
void watch_directories(const char* list);

/// Writes the name of the watched file that the call is about: its path below the watched directory, without
/// what differs between runs. Returns false when the call is about no such file.
bool name_of_file(const SystemCall& call, const Arguments& arguments, Text& name);

}  // namespace weft::faults
