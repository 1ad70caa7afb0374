// How a broken bound is told: "field: value, allowed: bound".
#pragma once

#include <cstdint>
#include <string>

namespace tinyloop::base {

// Throws Failure, invalid_argument.
[[noreturn]] void refuse(const std::string& field, const std::string& value,
                         const std::string& bound);
// Unless low <= value <= high.
void check_range(const std::string& field, int64_t value, int64_t low, int64_t high);

}  // namespace tinyloop::base
