#include "base/bounds.h"

#include "base/error.h"

namespace tinyloop::base {

void refuse(const std::string& field, const std::string& value, const std::string& bound) {
  throw Failure(errc::invalid_argument, field + ": " + value + ", allowed: " + bound);
}

void check_range(const std::string& field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return;
  refuse(field, std::to_string(value), std::to_string(low) + " to " + std::to_string(high));
}

}  // namespace tinyloop::base
