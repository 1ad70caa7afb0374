// The rows of a plan that take part in one stage of a pass, as arrays that the ops can read.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/kv_cache.h"
#include "engine/step_plan.h"
#include "kernels/attention_plan.h"
#include "kernels/device_memory.h"
#include "kernels/kv_page.h"

namespace tinyloop::engine {

// Filled once a stage and staged to the device; valid until the backend's next begin_step(). The
// vectors keep their capacity from pass to pass.
class RowBatch {
 public:
  // keep: rows whose residual stream a snapshot takes, behind the coda where they run it.
  enum class Stage : uint8_t { restore, enter, iterate, coda, keep };

  // Collects the chunks of `plan` that take part in `stage`, with the page table that its layers
  // use, where it has layers. query_group > 0: cuts the queries for attention
  // (kernels/attention_plan.h).
  void gather(const StepPlan& plan, Stage stage, const KvCache& cache,
              kernels::DeviceMemory& memory, int32_t query_group);

  int32_t rows() const { return int32_t(slots_.size()); }
  // Device arrays, one entry a row.
  const int32_t* slots() const { return device_slots_; }
  const int32_t* positions() const { return device_positions_; }
  const int32_t* tokens() const { return device_tokens_; }
  // The cache of a layer that stands at `layer` within its slot group's pages.
  kernels::KvView view(const KvCache& cache, int32_t layer) const;

 private:
  void clear();
  void reserve(const StepPlan& plan);
  void add(const StepPlan& plan, const ChunkStep& chunk, Stage stage, const KvCache& cache);

  std::vector<int32_t> slots_, positions_, tokens_, row_table_;
  std::vector<int32_t> tables_, windows_;
  std::vector<std::byte*> pages_;
  kernels::AttentionPlan queries_;
  const int32_t *device_slots_ = nullptr, *device_positions_ = nullptr, *device_tokens_ = nullptr;
  kernels::KvView view_;
};

}  // namespace tinyloop::engine
