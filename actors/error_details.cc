#include "actors/error_details.h"

#include <utility>

namespace tinyloop::actors {

ErrorDetails& ErrorDetails::instance() {
  static auto* const table = new ErrorDetails;
  return *table;
}

uint32_t ErrorDetails::store(std::string sentence) noexcept {
  if (sentence.empty()) return 0;
  const std::lock_guard lock(mutex_);
  last_ = last_ + 1 == kNumbers ? 1 : last_ + 1;
  slots_[last_ % kSlots] = {last_, std::move(sentence)};
  return last_;
}

std::optional<std::string> ErrorDetails::find(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const Slot& slot = slots_[number % kSlots];
  if (number == 0 || slot.number != number) return std::nullopt;
  return slot.sentence;
}

}  // namespace tinyloop::actors
