// The first of many deadlines.
#pragma once

#include <algorithm>
#include <optional>

#include "tinyloop/generate.h"

namespace tinyloop::actors {

// Or an earlier moment: the deadlines of those who have left are not taken off.
class NextDeadline {
 public:
  void note(const std::optional<TimePoint>& deadline) noexcept {
    first_ = earlier(first_, deadline);
  }
  // True: it has passed. Those that are left are to be noted anew.
  bool passes(TimePoint now) noexcept {
    if (!first_ || *first_ > now) return false;
    first_.reset();
    return true;
  }
  // Unset: nothing ever expires.
  const std::optional<TimePoint>& time() const noexcept { return first_; }

  static std::optional<TimePoint> earlier(const std::optional<TimePoint>& a,
                                          const std::optional<TimePoint>& b) noexcept {
    return a && b ? std::min(*a, *b) : a ? a : b;
  }

 private:
  std::optional<TimePoint> first_;
};

}  // namespace tinyloop::actors
