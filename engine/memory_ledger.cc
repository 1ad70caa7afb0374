#include "engine/memory_ledger.h"

namespace tinyloop::engine {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

const char* to_string(BufferId id) noexcept {
  switch (id) {
    case BufferId::main:
      return "main";
    case BufferId::norm:
      return "norm";
    case BufferId::scratch1:
      return "scratch1";
    case BufferId::attn_down:
      return "attn_down";
    case BufferId::injected:
      return "injected";
    case BufferId::logits:
      return "logits";
    case BufferId::rope_table:
      return "rope_table";
    case BufferId::adjusted_logits:
      return "adjusted_logits";
    case BufferId::token_counts:
      return "token_counts";
  }
  return "unknown";
}

void MemoryLedger::set_buffer(BufferId id, size_t rows, size_t bytes) noexcept {
  buffers_[size_t(id)].rows.store(rows, kRelaxed);
  buffers_[size_t(id)].bytes.store(bytes, kRelaxed);
}

void MemoryLedger::set_pages(size_t used, size_t free, size_t used_bytes,
                             size_t free_bytes) noexcept {
  pages_used_.store(used, kRelaxed);
  pages_free_.store(free, kRelaxed);
  bytes_used_.store(used_bytes, kRelaxed);
  bytes_free_.store(free_bytes, kRelaxed);
}

MemoryReport MemoryLedger::report(const kernels::DeviceMemory& memory) const {
  using kernels::MemoryUse;
  MemoryReport report;
  report.weights = memory.used(MemoryUse::weights);
  report.fp16_weight_cache = memory.used(MemoryUse::fp16_weight_cache);
  report.buffers = memory.used(MemoryUse::buffers);
  report.workspace = memory.used(MemoryUse::workspace);
  report.arena = memory.used(MemoryUse::arena);
  report.handles = memory.used(MemoryUse::handles);
  for (size_t i = 0; i < kBufferIds; ++i) {
    const size_t bytes = buffers_[i].bytes.load(kRelaxed);
    if (bytes == 0) continue;
    report.buffer_list.push_back({to_string(BufferId(i)), buffers_[i].rows.load(kRelaxed), bytes});
  }
  report.pages_used = pages_used_.load(kRelaxed);
  report.pages_free = pages_free_.load(kRelaxed);
  report.page_bytes_used = bytes_used_.load(kRelaxed);
  report.page_bytes_free = bytes_free_.load(kRelaxed);
  report.cache_budget = budget_.load(kRelaxed);
  report.cache_reserved = reserved_.load(kRelaxed);
  return report;
}

}  // namespace tinyloop::engine
