// Paged caches of the attention tests, in which everything a row may not read is a NaN or a null
// page.
#pragma once

#include <memory>
#include <vector>

#include "kernels/attention_plan.h"
#include "tests/support/op_matrix.h"
#include "tests/support/op_reference.h"

namespace tinyloop::testing {

struct AttentionShape {
  int32_t heads, kv_heads, head_dim;
};

// What a cache of that type holds of a value.
float stored(kernels::ScalarType type, float value);

// The layout in which the backend's ops want caches of `type`.
kernels::KvLayout cache_layout(const kernels::Backend& backend, kernels::ScalarType type,
                               int32_t kv_heads, int32_t head_dim);

// One sequence: K and V for `context` positions, seen through a window.
struct CachedSequence {
  int32_t context, window;
  std::vector<float> keys, values;  // [kv_heads][context][head_dim]

  int32_t first_attended(int32_t position) const {
    return window > 0 ? std::max(0, position - window + 1) : 0;
  }
};

// Random numbers, as a cache of `type` holds them.
CachedSequence random_sequence(kernels::ScalarType type, const AttentionShape& shape,
                               int32_t context, int32_t window, OpRandom& random);

// Rows of a batch: row r is the position positions[r] of sequence tables[r].
struct CacheRows {
  std::vector<int32_t> tables, positions;

  void add(int32_t table, int32_t position) {
    tables.push_back(table);
    positions.push_back(position);
  }
  int32_t count() const { return int32_t(tables.size()); }
};

// The rows on the device, cut into tiles where the backend asks for them.
class DeviceCacheRows {
 public:
  DeviceCacheRows(kernels::Backend& backend, const CacheRows& rows, int32_t group);

  const int32_t* tables() const { return tables_.data(); }
  const int32_t* positions() const { return positions_.data(); }
  kernels::QueryTiles tiles() const;

 private:
  kernels::AttentionPlan plan_;
  DeviceArray<int32_t> tables_, positions_;
  DeviceArray<kernels::QueryTile> narrow_, wide_;
};

// A paged cache that holds `sequences`, one table each, in scattered pages. A page has two layers;
// all but one hold NaN.
class OpCache {
 public:
  // `first_rows`: for every sequence the smallest position that will be asked about.
  OpCache(kernels::Backend& backend, kernels::ScalarType type, const AttentionShape& shape,
          const std::vector<CachedSequence>& sequences, const std::vector<int32_t>& first_rows,
          OpRandom& random);

  kernels::KvView view(const DeviceCacheRows& rows) const;
  std::vector<std::byte> storage() const { return storage_->read(); }
  // Puts into sequence number `index` what `storage` holds at one of its positions.
  void learn(const std::vector<std::byte>& storage, size_t index, int32_t position,
             CachedSequence& sequence) const;

 private:
  void place_pages(const std::vector<CachedSequence>& sequences,
                   const std::vector<int32_t>& first_rows, OpRandom& random);
  void fill(const CachedSequence& sequence, size_t index, int32_t first_row,
            std::vector<std::byte>& storage) const;
  void put(float value, std::byte* share, size_t index) const;
  float get(const std::byte* share, size_t index) const;

  kernels::KvLayout layout_;
  size_t page_bytes_;
  int32_t page_count_ = 0;
  std::vector<int32_t> pages_, tables_, windows_;
  std::unique_ptr<DeviceArray<std::byte>> storage_;
  std::unique_ptr<DeviceArray<std::byte*>> addresses_;
  std::unique_ptr<DeviceArray<int32_t>> table_array_, window_array_;
};

// Of q[rows][heads · head_dim].
Expected reference_attention(const AttentionShape& shape,
                             const std::vector<CachedSequence>& sequences, const CacheRows& rows,
                             const std::vector<float>& q);

}  // namespace tinyloop::testing
