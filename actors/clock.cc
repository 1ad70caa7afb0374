#include "actors/clock.h"

#include <type_traits>

namespace tinyloop::actors {

namespace {

class SteadyClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return std::chrono::steady_clock::now(); }
};

}  // namespace

const Clock& Clock::steady() noexcept {
  static_assert(std::is_trivially_destructible_v<SteadyClock>);
  static constexpr SteadyClock clock;
  return clock;
}

}  // namespace tinyloop::actors
