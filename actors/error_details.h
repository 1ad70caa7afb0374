// The sentences behind error codes: an error_code has room for an int alone, so the sentence is
// kept here and the code carries its number.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace tinyloop::actors {

// The latest kSlots sentences. Any thread; a lock, because only errors come here. A number is used
// again after kNumbers more errors: by then the first user's sentence has long been overwritten,
// and a code as old as that shows the newer sentence.
class ErrorDetails {
 public:
  static constexpr uint32_t kSlots = 4096;
  static constexpr uint32_t kNumbers = 1u << 23;  // what an int holds above 8 bits, sign excluded
  static_assert(kNumbers % kSlots == 0, "a slot must hold the same residues after a wrap");

  // The process-wide table. Never destroyed: codes may be printed while the process ends.
  static ErrorDetails& instance();

  // 1 .. kNumbers - 1. An empty sentence has number 0.
  uint32_t store(std::string sentence) noexcept;
  std::optional<std::string> find(uint32_t number) const;

 private:
  struct Slot {
    uint32_t number = 0;
    std::string sentence;
  };

  mutable std::mutex mutex_;
  uint32_t last_ = 0;
  std::array<Slot, kSlots> slots_;
};

}  // namespace tinyloop::actors
