// Room for the log-probabilities of a request, taken when it is submitted, so that recording one on
// the replica's thread allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tinyloop/generate.h"

namespace tinyloop::actors {

class LogprobSlots {
 public:
  // `candidates`: GenerateConfig::logprobs; without a value there are no slots.
  LogprobSlots(size_t positions, const std::optional<int32_t>& candidates) {
    if (!candidates) return;
    slots_.resize(positions);
    for (PositionLogprobs& slot : slots_) slot.top.reserve(size_t(*candidates));
  }

  void set(size_t position, const PositionLogprobs& value) {
    if (position >= slots_.size()) return;
    slots_[position].chosen = value.chosen;
    slots_[position].top.assign(value.top.begin(), value.top.end());
  }

  // Moves the first `count` slots out, as the last call; allocates nothing.
  std::vector<PositionLogprobs> take_first(size_t count) noexcept {
    if (!slots_.empty()) slots_.resize(count);
    return std::move(slots_);
  }

  // Moves the slots [begin, end) out.
  std::vector<PositionLogprobs> take(size_t begin, size_t end) {
    if (slots_.empty()) return {};
    const auto first = slots_.begin();
    return {std::make_move_iterator(first + ptrdiff_t(begin)),
            std::make_move_iterator(first + ptrdiff_t(end))};
  }

 private:
  std::vector<PositionLogprobs> slots_;
};

}  // namespace tinyloop::actors
