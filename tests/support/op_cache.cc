#include "tests/support/op_cache.h"

#include <algorithm>
#include <cstring>

#include "tests/support/quantise.h"

namespace tinyloop::testing {

using kernels::kPagePositions;
using kernels::ScalarType;

namespace {

constexpr size_t kLayer = 1;  // of the two that share a page

kernels::AttentionPlan plan_of(const kernels::Backend& backend, const CacheRows& rows,
                               int32_t group) {
  kernels::AttentionPlan plan;
  if (backend.wants_query_tiles()) {
    kernels::plan_attention(rows.tables, rows.positions, group, plan);
  }
  return plan;
}

}  // namespace

float stored(ScalarType type, float value) {
  return type == ScalarType::f16 ? from_half(to_half(value)) : value;
}

kernels::KvLayout cache_layout(const kernels::Backend& backend, ScalarType type, int32_t kv_heads,
                               int32_t head_dim) {
  kernels::KvLayout layout = backend.kv_layout(kv_heads, head_dim);
  layout.type = type;
  return layout;
}

CachedSequence random_sequence(ScalarType type, const AttentionShape& shape, int32_t context,
                               int32_t window, OpRandom& random) {
  const size_t count = size_t(shape.kv_heads) * size_t(context) * size_t(shape.head_dim);
  CachedSequence s{context, window, random.values(count, 2.0f), random.values(count, 2.0f)};
  for (auto* values : {&s.keys, &s.values}) {
    for (float& value : *values) value = stored(type, value);
  }
  return s;
}

DeviceCacheRows::DeviceCacheRows(kernels::Backend& backend, const CacheRows& rows, int32_t group)
    : plan_(plan_of(backend, rows, group)),
      tables_(backend, rows.tables),
      positions_(backend, rows.positions),
      narrow_(backend, plan_.narrow),
      wide_(backend, plan_.wide) {}

kernels::QueryTiles DeviceCacheRows::tiles() const {
  return {narrow_.data(), wide_.data(), int32_t(plan_.narrow.size()), int32_t(plan_.wide.size()),
          plan_.most_context};
}

OpCache::OpCache(kernels::Backend& backend, ScalarType type, const AttentionShape& shape,
                 const std::vector<CachedSequence>& sequences,
                 const std::vector<int32_t>& first_rows, OpRandom& random)
    : layout_(cache_layout(backend, type, shape.kv_heads, shape.head_dim)),
      page_bytes_(2 * layout_.layer_bytes()) {
  place_pages(sequences, first_rows, random);
  std::vector<std::byte> storage(page_bytes_ * size_t(page_count_), std::byte{0xff});  // NaN
  for (size_t s = 0; s < sequences.size(); ++s) fill(sequences[s], s, first_rows[s], storage);
  storage_ = std::make_unique<DeviceArray<std::byte>>(backend, storage);
  std::vector<std::byte*> addresses;
  for (int32_t page : pages_) {
    addresses.push_back(page < 0 ? nullptr : storage_->data() + size_t(page) * page_bytes_);
  }
  addresses_ = std::make_unique<DeviceArray<std::byte*>>(backend, addresses);
  table_array_ = std::make_unique<DeviceArray<int32_t>>(backend, tables_);
  window_array_ = std::make_unique<DeviceArray<int32_t>>(backend, windows_);
}

kernels::KvView OpCache::view(const DeviceCacheRows& rows) const {
  return {layout_,
          kLayer * layout_.layer_bytes(),
          addresses_->data(),
          table_array_->data(),
          window_array_->data(),
          rows.tables(),
          rows.positions(),
          rows.tiles()};
}

void OpCache::place_pages(const std::vector<CachedSequence>& sequences,
                          const std::vector<int32_t>& first_rows, OpRandom& random) {
  int32_t entries = 0;
  for (const CachedSequence& s : sequences) entries += (s.context - 1) / kPagePositions + 1;
  const auto order = random.distinct(entries, entries);
  for (size_t i = 0; i < sequences.size(); ++i) {
    const CachedSequence& s = sequences[i];
    tables_.push_back(int32_t(pages_.size()));
    windows_.push_back(s.window);
    const int32_t first = s.first_attended(first_rows[i]) / kPagePositions;
    for (int32_t page = 0; page <= (s.context - 1) / kPagePositions; ++page) {
      pages_.push_back(page < first ? -1 : order[pages_.size()]);
    }
  }
  page_count_ = entries;
}

void OpCache::fill(const CachedSequence& s, size_t index, int32_t first_row,
                   std::vector<std::byte>& storage) const {
  for (int32_t p = s.first_attended(first_row); p < s.context && !s.keys.empty(); ++p) {
    const auto page = size_t(pages_[size_t(tables_[index] + p / kPagePositions)]);
    std::byte* share = storage.data() + page * page_bytes_ + kLayer * layout_.layer_bytes();
    const int32_t place = p % kPagePositions;
    for (int32_t head = 0; head < layout_.kv_heads; ++head) {
      for (int32_t d = 0; d < layout_.head_dim; ++d) {
        const auto from = size_t((head * s.context + p) * layout_.head_dim + d);
        put(s.keys[from], share, layout_.key_index(head, place, d));
        put(s.values[from], share, layout_.value_index(head, place, d));
      }
    }
  }
}

void OpCache::put(float value, std::byte* share, size_t index) const {
  const uint16_t half = to_half(value);
  if (layout_.type == ScalarType::f16) {
    std::memcpy(share + index * 2, &half, 2);
  } else {
    std::memcpy(share + index * 4, &value, 4);
  }
}

void OpCache::learn(const std::vector<std::byte>& storage, size_t index, int32_t position,
                    CachedSequence& s) const {
  const auto page = size_t(pages_[size_t(tables_[index] + position / kPagePositions)]);
  const std::byte* share = storage.data() + page * page_bytes_ + kLayer * layout_.layer_bytes();
  const int32_t place = position % kPagePositions;
  for (int32_t head = 0; head < layout_.kv_heads; ++head) {
    for (int32_t d = 0; d < layout_.head_dim; ++d) {
      const auto to = size_t((head * s.context + position) * layout_.head_dim + d);
      s.keys[to] = get(share, layout_.key_index(head, place, d));
      s.values[to] = get(share, layout_.value_index(head, place, d));
    }
  }
}

float OpCache::get(const std::byte* share, size_t index) const {
  if (layout_.type == ScalarType::f16) {
    uint16_t half;
    std::memcpy(&half, share + index * 2, 2);
    return from_half(half);
  }
  float value;
  std::memcpy(&value, share + index * 4, 4);
  return value;
}

Expected reference_attention(const AttentionShape& shape,
                             const std::vector<CachedSequence>& sequences, const CacheRows& rows,
                             const std::vector<float>& q) {
  Expected want;
  const auto dim = size_t(shape.head_dim);
  for (size_t r = 0; r < size_t(rows.count()); ++r) {
    const CachedSequence& s = sequences[size_t(rows.tables[r])];
    for (size_t h = 0; h < size_t(shape.heads); ++h) {
      const size_t kv_head = h / size_t(shape.heads / shape.kv_heads);
      const auto first = ptrdiff_t(kv_head * size_t(s.context) * dim);
      const auto last = first + ptrdiff_t(size_t(s.context) * dim);
      const std::vector<float> keys(s.keys.begin() + first, s.keys.begin() + last);
      const std::vector<float> values(s.values.begin() + first, s.values.begin() + last);
      reference_attention(&q[(r * size_t(shape.heads) + h) * dim], keys, values,
                          rows.positions[r] + 1, shape.head_dim, s.window, want);
    }
  }
  return want;
}

}  // namespace tinyloop::testing
