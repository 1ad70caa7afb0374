// Lists of whole numbers on the command line: "1,2,3".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tinyloop::cli {

// Spaces around a number are allowed. Throws base::Failure(invalid_argument) naming `field`, the
// entry and the range of int32_t, also for an empty list.
std::vector<int32_t> parse_ids(const std::string& field, const std::string& text);

// Likewise, each in low .. high.
std::vector<int32_t> parse_ids(const std::string& field, const std::string& text, int32_t low,
                               int32_t high);

std::string join_ids(const std::vector<int32_t>& ids);  // "1,2,3"

}  // namespace tinyloop::cli
