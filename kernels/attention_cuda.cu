#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/cuda/attention_args.cuh"

namespace tinyloop::kernels {

namespace {

// A narrow tile has all queries of one row or more, or, of more than fit, some of one row.
int32_t most_narrow_queries(const QueryTiles& tiles, int32_t rows, int32_t group) {
  const int32_t most_rows = std::max(1, rows - tiles.narrow_count + 1);
  return most_rows < kNarrowQueries ? std::min(kNarrowQueries, group * most_rows) : kNarrowQueries;
}

bool has_pairs(const RowView& q, int32_t head_dim) {
  return q.type == ScalarType::f16 && q.stride % 2 == 0 && head_dim % 2 == 0 &&
         reinterpret_cast<uintptr_t>(q.data) % 4 == 0;
}

}  // namespace

int32_t most_head_dim_cuda(const CudaContext& cuda) {
  constexpr size_t kForMost = 162 << 10;  // narrow tiles take the most
  return cuda.shared_limit() >= kForMost ? kMostCudaHeadDim : 128;
}

void attention_cuda(CudaContext& cuda, const AttentionArgs& args) {
  const KvLayout& layout = args.cache.layout;
  const QueryTiles& tiles = args.cache.tiles;
  TINYLOOP_CHECK(layout.type == ScalarType::f16 && layout.order == PageOrder::matrices);
  TINYLOOP_CHECK(layout.head_dim <= most_head_dim_cuda(cuda) && args.heads % layout.kv_heads == 0);
  if (args.rows == 0) return;
  TINYLOOP_CHECK(tiles.narrow_count + tiles.wide_count > 0);
  auto params = argument_of<AttentionParams>();
  params.q = device_rows(args.q);
  params.out = device_rows(args.out);
  params.cache = device_pages(args.cache);
  params.counters = cuda.counters();
  const int32_t group = args.heads / layout.kv_heads;
  params.group = {group, group == 1 ? 0u : uint32_t((uint64_t{1} << 32) / uint64_t(group)) + 1};
  params.narrow_queries = most_narrow_queries(tiles, args.rows, group);
  params.has_pairs = has_pairs(args.q, layout.head_dim) ? 1 : 0;
  params.scale = float(1.4426950408889634 / std::sqrt(double(layout.head_dim)));
  if (tiles.wide_count > 0) launch_wide_attention(cuda, params, tiles);
  if (tiles.narrow_count > 0) launch_narrow_attention(cuda, params, tiles);
}

}  // namespace tinyloop::kernels
