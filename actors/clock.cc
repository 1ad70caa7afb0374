#include "actors/clock.h"

namespace tinyloop::actors {

namespace {

class SteadyClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return std::chrono::steady_clock::now(); }
};

}  // namespace

const Clock& Clock::steady() noexcept {
  static const SteadyClock clock;
  return clock;
}

}  // namespace tinyloop::actors
