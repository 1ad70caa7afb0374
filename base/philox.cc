#include "base/philox.h"

#include <cmath>
#include <numbers>

namespace tinyloop::base {

std::array<float, 2> normal_pair(const PhiloxBlock& words) noexcept {
  const double u = 1.0 - uniform_double(words[0], words[1]);  // (0, 1]: the logarithm is finite
  const double angle = 2.0 * std::numbers::pi * uniform_double(words[2], words[3]);
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {static_cast<float>(radius * std::cos(angle)),
          static_cast<float>(radius * std::sin(angle))};
}

}  // namespace tinyloop::base
