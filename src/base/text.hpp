// Numbers and times as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// "512 B", "1.50 KiB", "36.00 GiB": in the largest unit of which there is one or more.
std::string bytes_text(std::int64_t bytes);

/// "12.3k", "4.56M": three digits.
std::string count_text(double x);

/// "45s", "3m 05s", "2h 07m", "3d 04h"; "?" for what is not finite.
std::string duration_text(double seconds);

/// "2026-11-24T09:36:29Z".
std::string utc_now();
/// The same for names of files: "20261124T093629Z".
std::string utc_now_for_names();

}  // namespace weft
