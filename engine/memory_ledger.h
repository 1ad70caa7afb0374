// What the parts of a replica hold, published for the memory report. The replica's thread writes,
// any thread may read; the ledger outlives the model so that a report taken during or after an
// unload is still safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/device_memory.h"
#include "tinyloop/reports.h"

namespace tinyloop::engine {

// The buffers of the pool, in the order of the report.
enum class BufferId : uint8_t {
  main,
  norm,
  scratch1,
  attn_down,
  injected,
  logits,
  rope_table,
  adjusted_logits,
  token_counts,
};
inline constexpr size_t kBufferIds = 9;
const char* to_string(BufferId id) noexcept;

class MemoryLedger {
 public:
  // Replica thread.
  void set_buffer(BufferId id, size_t rows, size_t bytes) noexcept;
  void set_pages(size_t used, size_t free, size_t used_bytes, size_t free_bytes) noexcept;
  void set_budget(size_t bytes) noexcept { budget_.store(bytes, std::memory_order_relaxed); }
  void set_reserved(size_t bytes) noexcept { reserved_.store(bytes, std::memory_order_relaxed); }

  // Any thread. Totals by use come from `memory`, the counting allocator itself.
  MemoryReport report(const kernels::DeviceMemory& memory) const;

 private:
  struct BufferSize {
    std::atomic<size_t> rows{0};
    std::atomic<size_t> bytes{0};
  };
  std::array<BufferSize, kBufferIds> buffers_;
  std::atomic<size_t> pages_used_{0}, pages_free_{0}, bytes_used_{0}, bytes_free_{0};
  std::atomic<size_t> budget_{0}, reserved_{0};
};

}  // namespace tinyloop::engine
