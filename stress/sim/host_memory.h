// The host's memory, of which the engine's loops may be refused some. Not under a sanitizer, which
// brings an allocator of its own.
#pragma once

#include <cstdint>
#include <utility>

namespace tinyloop::sim {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kHostMemoryRefuses = false;
#else
inline constexpr bool kHostMemoryRefuses = true;
#endif

struct HostMemory {
  static inline uint64_t refuse_in = 0;       // an allocation of a loop's, from now; 0: none
  static inline uint64_t* refused = nullptr;  // by the loop that allocates; null: it is no loop's
};

// While it lives, allocations are a loop's, and what it is refused is counted there; or, with null,
// the simulator's, which are never refused.
class Allocating {
 public:
  explicit Allocating(uint64_t* refused) : before_(std::exchange(HostMemory::refused, refused)) {}
  ~Allocating() { HostMemory::refused = before_; }
  Allocating(const Allocating&) = delete;
  Allocating& operator=(const Allocating&) = delete;

 private:
  uint64_t* before_;
};

}  // namespace tinyloop::sim
