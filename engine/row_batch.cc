#include "engine/row_batch.h"

#include <algorithm>

namespace tinyloop::engine {

namespace {

bool takes_part(const ChunkStep& chunk, RowBatch::Stage stage) {
  switch (stage) {
    case RowBatch::Stage::restore:
      return chunk.restores;
    case RowBatch::Stage::enter:
      return chunk.enters;
    case RowBatch::Stage::iterate:
      return chunk.iteration != ChunkStep::kHeld;
    case RowBatch::Stage::coda:
      return chunk.coda;
    case RowBatch::Stage::keep:
      return chunk.keeps != 0;
  }
  return false;
}

// The pages that the layers of a stage use; null for a stage without layers.
const int32_t* table_of(const StepPlan& plan, const ChunkStep& chunk, RowBatch::Stage stage) {
  switch (stage) {
    case RowBatch::Stage::enter:
      return plan.prelude_pages.data() + chunk.prelude_table;
    case RowBatch::Stage::iterate:
      return plan.loop_pages.data() + chunk.loop_table;
    case RowBatch::Stage::coda:
      return plan.coda_pages.data() + chunk.coda_table;
    case RowBatch::Stage::restore:
    case RowBatch::Stage::keep:
      break;
  }
  return nullptr;
}

const PagePool& pool_of(const KvCache& cache, RowBatch::Stage stage) {
  switch (stage) {
    case RowBatch::Stage::enter:
      return cache.pool(PageKind::prelude);
    case RowBatch::Stage::coda:
      return cache.pool(PageKind::coda);
    default:
      return cache.pool(PageKind::loop);
  }
}

template <class T>
const T* stage_array(kernels::DeviceMemory& memory, const std::vector<T>& array) {
  return static_cast<const T*>(memory.stage(array.data(), array.size() * sizeof(T)));
}

}  // namespace

void RowBatch::gather(const StepPlan& plan, Stage stage, const KvCache& cache,
                      kernels::DeviceMemory& memory, int32_t query_group) {
  clear();
  reserve(plan);
  for (const ChunkStep& chunk : plan.chunks) {
    if (takes_part(chunk, stage)) add(plan, chunk, stage, cache);
  }
  if (slots_.empty()) return;
  device_slots_ = stage_array(memory, slots_);
  device_positions_ = stage_array(memory, positions_);
  device_tokens_ = stage_array(memory, tokens_);
  view_ = {.layout = cache.layout(),
           .layer_offset = 0,
           .pages = stage_array(memory, pages_),
           .tables = stage_array(memory, tables_),
           .windows = stage_array(memory, windows_),
           .row_table = stage_array(memory, row_table_),
           .positions = device_positions_,
           .tiles = {}};
  if (query_group == 0) return;
  kernels::plan_attention(row_table_, positions_, query_group, queries_);
  view_.tiles = {.narrow = stage_array(memory, queries_.narrow),
                 .wide = stage_array(memory, queries_.wide),
                 .narrow_count = int32_t(queries_.narrow.size()),
                 .wide_count = int32_t(queries_.wide.size()),
                 .most_context = queries_.most_context};
}

kernels::KvView RowBatch::view(const KvCache& cache, int32_t layer) const {
  kernels::KvView view = view_;
  view.layer_offset = size_t(layer) * cache.layout().layer_bytes();
  return view;
}

void RowBatch::clear() {
  slots_.clear();
  positions_.clear();
  tokens_.clear();
  row_table_.clear();
  tables_.clear();
  windows_.clear();
  pages_.clear();
}

// As much as the plan itself has room for: plans that need no more allocate nothing here either.
void RowBatch::reserve(const StepPlan& plan) {
  for (auto* array : {&slots_, &positions_, &tokens_, &row_table_})
    array->reserve(plan.tokens.capacity());
  for (auto* array : {&tables_, &windows_}) array->reserve(plan.chunks.capacity());
  pages_.reserve(plan.loop_pages.capacity());
}

void RowBatch::add(const StepPlan& plan, const ChunkStep& chunk, Stage stage,
                   const KvCache& cache) {
  const auto table = int32_t(tables_.size());
  tables_.push_back(int32_t(pages_.size()));
  windows_.push_back(chunk.window);
  const PagePool& pool = pool_of(cache, stage);
  const int32_t* pages = table_of(plan, chunk, stage);
  const int32_t count = pages && pool.page_bytes() > 0 ? chunk.pages : 0;
  for (int32_t i = 0; i < count; ++i) {
    pages_.push_back(pages[i] == PagePool::kNoPage ? nullptr : pool.address(pages[i]));
  }
  for (int32_t i = 0; i < chunk.rows; ++i) {
    slots_.push_back(plan.slots[size_t(chunk.first_row + i)]);
    tokens_.push_back(plan.tokens[size_t(chunk.first_row + i)]);
    positions_.push_back(chunk.first_position + i);
    row_table_.push_back(table);
  }
}

}  // namespace tinyloop::engine
