#include <cstring>

#include "base/check.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/kv_append.h"

namespace tinyloop::kernels {

namespace {

// One row's vector of all K/V heads → its place in one half (K or V) of a layer's share.
void append_row(const KvLayout& layout, const float* from, int32_t place, float* half) {
  const auto dim = size_t(layout.head_dim);
  for (int32_t head = 0; head < layout.kv_heads; ++head) {
    float* to = half + size_t(head) * layout.head_elements() + size_t(place) * dim;
    std::memcpy(to, from + size_t(head) * dim, dim * sizeof(float));
  }
}

}  // namespace

void kv_append_cpu(CpuContext& cpu, const KvAppendArgs& args) {
  const KvView& cache = args.cache;
  const KvLayout& layout = cache.layout;
  TINYLOOP_CHECK(args.k.type == ScalarType::f32 && args.v.type == ScalarType::f32);
  TINYLOOP_CHECK(layout.type == ScalarType::f32);
  cpu.for_rows(args.rows, int64_t{2} * layout.kv_heads * layout.head_dim, [&](int32_t row) {
    const int32_t position = cache.positions[row];
    const int32_t entry = cache.tables[cache.row_table[row]] + position / kPagePositions;
    auto* keys = reinterpret_cast<float*>(cache.pages[entry] + cache.layer_offset);
    append_row(layout, args.k.f32_row(row), position % kPagePositions, keys);
    append_row(layout, args.v.f32_row(row), position % kPagePositions,
               keys + layout.half_elements());
  });
}

}  // namespace tinyloop::kernels
