#include <algorithm>
#include <limits>

#include "kernels/attention.h"
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_cpu.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/dot-inl.h"
#include "kernels/cpu/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The cache of one sequence, as one K/V head sees it.
struct HeadCache {
  const std::byte* const* pages;  // the sequence's page table
  size_t key_offset;              // bytes from a page's start to the head's keys
  size_t value_offset;
  int32_t head_dim;

  const float* key(int32_t position) const { return at(position, key_offset); }
  const float* value(int32_t position) const { return at(position, value_offset); }

 private:
  const float* at(int32_t position, size_t offset) const {
    const std::byte* page = pages[position / kPagePositions];
    return reinterpret_cast<const float*>(page + offset) +
           size_t(position % kPagePositions) * size_t(head_dim);
  }
};

// Softmax weights and their weighted sum over a range of positions, before division by `sum`.
struct Partial {
  float max = kMinusInfinity;
  float sum = 0.0f;
  float* values = nullptr;  // [head_dim]: Σ exp(score − max) · v
};

// scores[r][p − origin] = scale · q[r] · k[p] for begin <= p < end. A group of four positions that
// reaches beyond the range reads a position inside it instead.
HWY_INLINE void score_split(const HeadCache& cache, const float* const* q, int32_t rows,
                            int32_t begin, int32_t end, float scale, float* scores) {
  const int32_t origin = begin / kAttentionSplit * kAttentionSplit;
  for (int32_t quad = begin / 4 * 4; quad < end; quad += 4) {
    const float* keys[4];
    for (int32_t j = 0; j < 4; ++j) keys[j] = cache.key(std::clamp(quad + j, begin, end - 1));
    float dots[kTileRows * 4];
    dot_tile(rows, keys, q, cache.head_dim, dots);
    for (int32_t r = 0; r < rows; ++r) {
      float* to = scores + r * kAttentionSplit + (quad - origin);
      for (int32_t j = 0; j < 4; ++j) to[j] = dots[4 * r + j] * scale;
    }
  }
}

// Turns the scores of [begin, end) into exp(score − max), 0 outside up to whole groups of lanes.
HWY_INLINE void softmax_split(int32_t begin, int32_t end, float* scores, Partial& out) {
  const int32_t first = begin / kLanes * kLanes, last = (end + kLanes - 1) / kLanes * kLanes;
  std::fill(scores + first, scores + begin, kMinusInfinity);
  std::fill(scores + end, scores + last, kMinusInfinity);
  Lanes best = load(scores + first);
  for (int32_t i = first + kLanes; i < last; i += kLanes) best = maximum(best, load(scores + i));
  out.max = largest(best);
  const Lanes minus_max = splat(-out.max);
  Lanes sums = splat(0.0f);
  for (int32_t i = first; i < last; i += kLanes) {
    const Lanes weights = exponential(add(load(scores + i), minus_max));
    store(weights, scores + i);
    sums = add(sums, weights);
  }
  out.sum = sum(sums);
}

// One vector of eight dimensions (or `rest` of them) of the weighted sum, in order of position.
template <class Read>
HWY_INLINE Lanes weigh_lanes(const HeadCache& cache, int32_t begin, int32_t end,
                             const float* weights, Read read) {
  Lanes total = splat(0.0f);
  for (int32_t p = begin; p < end;) {
    const int32_t page_end = std::min(end, (p / kPagePositions + 1) * kPagePositions);
    const float* v = cache.value(p);
    for (; p < page_end; ++p, v += cache.head_dim) {
      total = multiply_add(splat(weights[p % kAttentionSplit]), read(v), total);
    }
  }
  return total;
}

// Four such vectors at once: the same sums, four independent chains.
HWY_INLINE void weigh_four(const HeadCache& cache, int32_t begin, int32_t end, const float* weights,
                           int32_t dim, float* out) {
  Lanes total[4] = {splat(0.0f), splat(0.0f), splat(0.0f), splat(0.0f)};
  for (int32_t p = begin; p < end;) {
    const int32_t page_end = std::min(end, (p / kPagePositions + 1) * kPagePositions);
    const float* v = cache.value(p) + dim;
    for (; p < page_end; ++p, v += cache.head_dim) {
      const Lanes weight = splat(weights[p % kAttentionSplit]);
      repeat<4>([&](auto j) TINYLOOP_LAMBDA {
        total[j] = multiply_add(weight, load(v + j * kLanes), total[j]);
      });
    }
  }
  repeat<4>([&](auto j) TINYLOOP_LAMBDA { store(total[j], out + dim + j * kLanes); });
}

HWY_INLINE void weigh_split(const HeadCache& cache, int32_t begin, int32_t end,
                            const float* weights, float* out) {
  int32_t dim = 0;
  for (; dim + 4 * kLanes <= cache.head_dim; dim += 4 * kLanes) {
    weigh_four(cache, begin, end, weights, dim, out);
  }
  for (; dim + kLanes <= cache.head_dim; dim += kLanes) {
    store(weigh_lanes(cache, begin, end, weights,
                      [dim](const float* v) TINYLOOP_LAMBDA { return load(v + dim); }),
          out + dim);
  }
  if (const int32_t rest = cache.head_dim - dim; rest > 0) {
    store_first(weigh_lanes(cache, begin, end, weights,
                            [dim, rest](const float* v)
                                TINYLOOP_LAMBDA { return load_first(v + dim, rest); }),
                out + dim, rest);
  }
}

// total += next, both scaled to the larger maximum. The first split starts from an empty total
// (maximum −inf, whose weight is exp(−inf) = 0, and zeroed values).
HWY_INLINE void merge_split(int32_t head_dim, const Partial& next, Partial& total) {
  const float max = std::max(total.max, next.max);
  const float keep = exponential(total.max - max), take = exponential(next.max - max);
  total.max = max;
  total.sum = total.sum * keep + next.sum * take;
  const Lanes keeps = splat(keep), takes = splat(take);
  for_lanes(head_dim, [&](auto read, auto write) TINYLOOP_LAMBDA {
    write(multiply_add(read(next.values), takes, multiply(read(total.values), keeps)),
          total.values);
  });
}

// Up to kTileRows heads of one row that share a K/V head. Workspace: scores [kTileRows][split],
// values of one split [head_dim], running values [kTileRows][head_dim].
HWY_INLINE void attend_heads(const HeadCache& cache, const float* const* q, float* const* out,
                             int32_t heads, int32_t begin, int32_t end, float scale,
                             float* workspace) {
  const int32_t dim = cache.head_dim;
  float* scores = workspace;
  float* split_values = scores + kTileRows * kAttentionSplit;
  Partial totals[kTileRows];
  for (int32_t h = 0; h < heads; ++h) {
    totals[h].values = split_values + (h + 1) * dim;
    std::fill_n(totals[h].values, dim, 0.0f);
  }
  for (int32_t from = begin; from < end;) {
    const int32_t origin = from / kAttentionSplit * kAttentionSplit;
    const int32_t to = std::min(end, origin + kAttentionSplit);
    score_split(cache, q, heads, from, to, scale, scores);
    for (int32_t h = 0; h < heads; ++h) {
      Partial split{.values = split_values};
      float* weights = scores + h * kAttentionSplit;
      softmax_split(from - origin, to - origin, weights, split);
      weigh_split(cache, from, to, weights, split.values);
      merge_split(dim, split, totals[h]);
    }
    from = to;
  }
  for (int32_t h = 0; h < heads; ++h) {
    const Lanes factor = splat(1.0f / totals[h].sum);
    for_lanes(dim, [&](auto read, auto write) TINYLOOP_LAMBDA {
      write(multiply(read(totals[h].values), factor), out[h]);
    });
  }
}

// Items [first, last) of the rows · kv_heads there are. `scale` = 1 / sqrt(head_dim).
void attend_items(const AttentionArgs& args, int64_t first, int64_t last, float scale,
                  float* workspace) {
  const KvView& kv = args.cache;
  const KvLayout& layout = kv.layout;
  const int32_t group = args.heads / layout.kv_heads;
  for (int64_t item = first; item < last; ++item) {
    const auto row = int32_t(item / layout.kv_heads);
    const auto kv_head = int32_t(item % layout.kv_heads);
    const int32_t table = kv.row_table[row], position = kv.positions[row];
    const int32_t window = kv.windows[table];
    const int32_t begin = window > 0 ? std::max(0, position - window + 1) : 0;
    const size_t key_offset =
        kv.layer_offset + size_t(kv_head) * layout.head_elements() * sizeof(float);
    const HeadCache cache{kv.pages + kv.tables[table], key_offset,
                          key_offset + layout.half_elements() * sizeof(float), layout.head_dim};
    for (int32_t h = 0; h < group; h += kTileRows) {
      const int32_t heads = std::min(kTileRows, group - h);
      const float* q[kTileRows];
      float* out[kTileRows];
      for (int32_t i = 0; i < heads; ++i) {
        const size_t column = size_t(kv_head * group + h + i) * size_t(layout.head_dim);
        q[i] = args.q.f32_row(row) + column;
        out[i] = args.out.f32_row(row) + column;
      }
      attend_heads(cache, q, out, heads, begin, position + 1, scale, workspace);
    }
  }
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

#include "base/check.h"
#include "kernels/cpu/cpu_context.h"

namespace tinyloop::kernels {

HWY_EXPORT(attend_items);

namespace {

constexpr int32_t kMaxTileRows = 4;  // the largest kTileRows of any target

// Multiply-adds of an average item.
int64_t item_work(const AttentionArgs& args) {
  int64_t positions = 0;
  for (int32_t r = 0; r < args.rows; ++r) {
    const int32_t context = args.cache.positions[r] + 1;
    const int32_t window = args.cache.windows[args.cache.row_table[r]];
    positions += window > 0 ? std::min(context, window) : context;
  }
  const int32_t group = args.heads / args.cache.layout.kv_heads;
  return positions / args.rows * 2 * group * args.cache.layout.head_dim;
}

}  // namespace

void attention_cpu(CpuContext& cpu, const AttentionArgs& args) {
  const KvLayout& layout = args.cache.layout;
  TINYLOOP_CHECK(args.q.type == ScalarType::f32 && args.out.type == ScalarType::f32);
  TINYLOOP_CHECK(layout.type == ScalarType::f32 && layout.head_dim > 0 && layout.kv_heads > 0);
  TINYLOOP_CHECK(args.heads > 0 && args.heads % layout.kv_heads == 0);
  TINYLOOP_CHECK(size_t(kMaxTileRows) * kAttentionSplit +
                     size_t(kMaxTileRows + 1) * size_t(layout.head_dim) <=
                 CpuContext::kWorkspaceFloats);
  if (args.rows == 0) return;
  const auto scale = float(1.0 / std::sqrt(double(layout.head_dim)));
  cpu.for_items(int64_t{args.rows} * layout.kv_heads, item_work(args),
                [&](int64_t first, int64_t last, int32_t thread) {
                  HWY_DYNAMIC_DISPATCH(attend_items)
                  (args, first, last, scale, cpu.workspace(thread));
                });
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
