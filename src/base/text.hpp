// Writes numbers and times as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// A size as text, in the largest unit of which there is one or more: "512 B", "1.50 KiB", "36.00 GiB".
std::string bytes_text(std::int64_t bytes);

/// A count as text with three digits: "12.3k", "4.56M".
std::string count_text(double x);

/// A duration as text: "45s", "3m 05s", "2h 07m", "3d 04h"; "?" for what is not finite.
std::string duration_text(double seconds);

/// The current time in UTC: "2026-11-24T09:36:29Z".
std::string utc_now();
/// The current time in UTC, in a form for names of files: "20261124T093629Z".
std::string utc_now_for_names();

}  // namespace weft
