#include <algorithm>
#include <limits>

#include "kernels/attention.h"
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_cpu.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/exp-inl.h"

// For all targets: queries that are worked on together.
#ifndef TINYLOOP_ATTENTION_QUERIES
#define TINYLOOP_ATTENTION_QUERIES
namespace tinyloop::kernels {
inline constexpr int32_t kAttentionQueries = 8;
}
#endif

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Whole vectors of the target, of positions (scores) or of dimensions (weighted sums). Their length
// changes no bit: each lane is a sum of its own.
using WideTag = hn::CappedTag<float, kPagePositions>;
using Wide = hn::Vec<WideTag>;
inline constexpr int32_t kWideLanes = int32_t(HWY_MIN(HWY_LANES(float), kPagePositions));

// Queries that share each load of keys, or of values, and independent sums a query.
#if (HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86) || HWY_ARCH_ARM
inline constexpr int32_t kScoreQueries = 8, kWeighQueries = 8;  // 32 registers
#else
inline constexpr int32_t kScoreQueries = 4, kWeighQueries = 2;  // 16 registers
#endif

// Vectors of dimensions in a tile of so many queries.
constexpr int32_t weigh_vectors_of(int32_t queries) {
  return queries == 8 ? 2 : 4;
}

// A vector of stored numbers, as f32.
HWY_INLINE Wide load_wide(const float* from) {
  return hn::LoadU(WideTag(), from);
}
HWY_INLINE Wide load_wide(const hwy::float16_t* from) {
  return hn::PromoteTo(WideTag(), hn::LoadU(hn::Rebind<hwy::float16_t, WideTag>(), from));
}

HWY_INLINE float load_one(const float* from) {
  return *from;
}
HWY_INLINE float load_one(const hwy::float16_t* from) {
  const hn::FixedTag<hwy::float16_t, 1> tag;
  return hn::GetLane(hn::PromoteTo(hn::FixedTag<float, 1>(), hn::LoadU(tag, from)));
}

// The cache of one sequence, as one K/V head sees it; Number is what the pages hold.
template <class Number>
struct HeadCache {
  const std::byte* const* pages;  // the sequence's page table
  size_t key_offset;              // bytes from a page's start to the head's keys
  size_t value_offset;
  int32_t head_dim;

  // Dimension 0 of the keys of `position` and of those that follow it in its page; dimension d lies
  // d · kPagePositions further.
  const Number* keys(int32_t position) const {
    return share(position, key_offset) + position % kPagePositions;
  }
  const Number* value(int32_t position) const {
    return share(position, value_offset) + size_t(position % kPagePositions) * size_t(head_dim);
  }

 private:
  const Number* share(int32_t position, size_t offset) const {
    return reinterpret_cast<const Number*>(pages[position / kPagePositions] + offset);
  }
};

// Softmax weights and their weighted sum over a range of positions, before division by `sum`.
struct Partial {
  float max = kMinusInfinity;
  float sum = 0.0f;
  float* values = nullptr;  // [head_dim]: Σ exp(score − max) · v
};

// One head of one row. Attends to the positions [begin, end).
struct Query {
  const float* q;
  float* out;
  int32_t begin, end;
  float* scores;  // [kAttentionSplit] of the current split, then softmax weights
  Partial split, total;

  // The part of its range that lies in [from, to).
  int32_t first(int32_t from) const { return std::max(begin, from); }
  int32_t last(int32_t to) const { return std::min(end, to); }
  bool touches(int32_t from, int32_t to) const { return first(from) < last(to); }
};

// scores[r][p − origin] = scale · q[r] · k[p] for kVectors vectors of positions from `position` on.
// The dimensions are added up in order.
template <int32_t kQueries, int32_t kVectors, class Number>
HWY_INLINE void score_vectors(const HeadCache<Number>& cache, const Query* queries,
                              int32_t position, float scale) {
  const Number* keys[kVectors];
  Wide sums[kQueries][kVectors];
  repeat<kVectors>([&](auto v) TINYLOOP_LAMBDA {
    keys[v] = cache.keys(position + v * kWideLanes);
    repeat<kQueries>([&](auto r) TINYLOOP_LAMBDA { sums[r][v] = hn::Zero(WideTag()); });
  });
  for (int32_t d = 0; d < cache.head_dim; ++d) {
    Wide k[kVectors];
    repeat<kVectors>([&](auto v)
                         TINYLOOP_LAMBDA { k[v] = load_wide(keys[v] + d * kPagePositions); });
    repeat<kQueries>([&](auto r) TINYLOOP_LAMBDA {
      const Wide q = hn::Set(WideTag(), queries[r].q[d]);
      repeat<kVectors>([&](auto v)
                           TINYLOOP_LAMBDA { sums[r][v] = hn::MulAdd(q, k[v], sums[r][v]); });
    });
  }
  repeat<kQueries>([&](auto r) TINYLOOP_LAMBDA {
    float* to = queries[r].scores + position % kAttentionSplit;
    repeat<kVectors>([&](auto v) TINYLOOP_LAMBDA {
      hn::StoreU(hn::Mul(sums[r][v], hn::Set(WideTag(), scale)), WideTag(), to + v * kWideLanes);
    });
  });
}

// As many whole groups of kQueries as there are, against whole vectors over [from, to); returns the
// first query left over.
template <int32_t kQueries, class Number>
HWY_INLINE int32_t score_queries(const HeadCache<Number>& cache, const Query* queries, int32_t done,
                                 int32_t count, int32_t from, int32_t to, float scale) {
  constexpr int32_t kVectors = HWY_MIN(4, 8 / kQueries), kStep = kVectors * kWideLanes;
  for (; done + kQueries <= count; done += kQueries) {
    int32_t p = from / kWideLanes * kWideLanes;
    for (; p + kStep <= to; p += kStep) {
      score_vectors<kQueries, kVectors>(cache, queries + done, p, scale);
    }
    for (; p < to; p += kWideLanes) score_vectors<kQueries, 1>(cache, queries + done, p, scale);
  }
  return done;
}

// The scores of [from, to) within one split, and of what else lies in its vectors: that may be
// anything, also not a number, and is masked afterwards.
template <class Number>
HWY_INLINE void score_split(const HeadCache<Number>& cache, const Query* queries, int32_t count,
                            int32_t from, int32_t to, float scale) {
  int32_t done = 0;
  if constexpr (kScoreQueries == 8) {
    done = score_queries<8>(cache, queries, done, count, from, to, scale);
  }
  done = score_queries<4>(cache, queries, done, count, from, to, scale);
  done = score_queries<2>(cache, queries, done, count, from, to, scale);
  score_queries<1>(cache, queries, done, count, from, to, scale);
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

// values[r][dim …] += Σ weight · v over the positions [from, to), in their order, for kVectors
// vectors of dimensions.
template <int32_t kQueries, int32_t kVectors, class Number>
HWY_INLINE void weigh_vectors(const HeadCache<Number>& cache, const Query* queries, int32_t from,
                              int32_t to, int32_t dim) {
  Wide sums[kQueries][kVectors];
  const float* weights[kQueries];
  repeat<kQueries>([&](auto r) TINYLOOP_LAMBDA {
    weights[r] = queries[r].scores + from % kAttentionSplit;
    repeat<kVectors>([&](auto v) TINYLOOP_LAMBDA {
      sums[r][v] = hn::LoadU(WideTag(), queries[r].split.values + dim + v * kWideLanes);
    });
  });
  for (int32_t p = from; p < to;) {
    const int32_t run = std::min(to, (p / kPagePositions + 1) * kPagePositions) - p;
    const Number* value = cache.value(p) + dim;
    for (int32_t i = 0; i < run; ++i, value += cache.head_dim) {
      Wide v[kVectors];
      repeat<kVectors>([&](auto j) TINYLOOP_LAMBDA { v[j] = load_wide(value + j * kWideLanes); });
      repeat<kQueries>([&](auto r) TINYLOOP_LAMBDA {
        const Wide weight = hn::Set(WideTag(), weights[r][i]);
        repeat<kVectors>(
            [&](auto j) TINYLOOP_LAMBDA { sums[r][j] = hn::MulAdd(weight, v[j], sums[r][j]); });
      });
    }
    repeat<kQueries>([&](auto r) TINYLOOP_LAMBDA { weights[r] += run; });
    p += run;
  }
  repeat<kQueries>([&](auto r) TINYLOOP_LAMBDA {
    repeat<kVectors>([&](auto v) TINYLOOP_LAMBDA {
      hn::StoreU(sums[r][v], WideTag(), queries[r].split.values + dim + v * kWideLanes);
    });
  });
}

// The same for dimensions from `dim` on, which do not fill a vector.
template <class Number>
HWY_INLINE void weigh_rest(const HeadCache<Number>& cache, const Query& query, int32_t from,
                           int32_t to, int32_t dim) {
  for (int32_t p = from; p < to; ++p) {
    const float weight = query.scores[p % kAttentionSplit];
    const Number* value = cache.value(p);
    for (int32_t d = dim; d < cache.head_dim; ++d) {
      query.split.values[d] += weight * load_one(value + d);
    }
  }
}

template <int32_t kQueries, class Number>
HWY_INLINE int32_t weigh_queries(const HeadCache<Number>& cache, const Query* queries, int32_t done,
                                 int32_t count, int32_t from, int32_t to) {
  for (; done + kQueries <= count; done += kQueries) {
    constexpr int32_t kVectors = weigh_vectors_of(kQueries), kStep = kVectors * kWideLanes;
    const Query* some = queries + done;
    int32_t dim = 0;
    for (; dim + kStep <= cache.head_dim; dim += kStep) {
      weigh_vectors<kQueries, kVectors>(cache, some, from, to, dim);
    }
    for (; dim + kWideLanes <= cache.head_dim; dim += kWideLanes) {
      weigh_vectors<kQueries, 1>(cache, some, from, to, dim);
    }
    if (dim == cache.head_dim) continue;
    for (int32_t r = 0; r < kQueries; ++r) weigh_rest(cache, some[r], from, to, dim);
  }
  return done;
}

template <class Number>
HWY_INLINE void weigh_range(const HeadCache<Number>& cache, const Query* queries, int32_t count,
                            int32_t from, int32_t to) {
  if (from >= to) return;
  int32_t done = 0;
  if constexpr (kWeighQueries == 8) {
    done = weigh_queries<8>(cache, queries, done, count, from, to);
    done = weigh_queries<4>(cache, queries, done, count, from, to);
  }
  done = weigh_queries<2>(cache, queries, done, count, from, to);
  weigh_queries<1>(cache, queries, done, count, from, to);
}

// Starts to fetch the values of [from, to) into the second-level cache, to be there when the scores
// are. (Into the first level is slower: its few outstanding lines are the keys' to use.)
template <class Number>
HWY_INLINE void prefetch_values(const HeadCache<Number>& cache, int32_t from, int32_t to) {
  constexpr size_t kLineNumbers = 64 / sizeof(Number);
  for (int32_t p = from; p < to;) {
    const int32_t run = std::min(to, (p / kPagePositions + 1) * kPagePositions) - p;
    const Number* value = cache.value(p);
    const Number* end = value + size_t(run) * size_t(cache.head_dim);
    for (; value < end; value += kLineNumbers) __builtin_prefetch(value, 0, 2);
    p += run;
  }
}

// The weighted sums of a split. Positions that all queries attend to are read once; before and
// after them each query goes alone, so that it meets no value outside its own range.
template <class Number>
HWY_INLINE void weigh_split(const HeadCache<Number>& cache, const Query* queries, int32_t count,
                            int32_t from, int32_t to) {
  int32_t common_first = from, common_last = to;
  for (int32_t r = 0; r < count; ++r) {
    common_first = std::max(common_first, queries[r].begin);
    common_last = std::min(common_last, queries[r].end);
    std::fill_n(queries[r].split.values, cache.head_dim, 0.0f);
  }
  if (common_first >= common_last) common_first = common_last = to;
  for (int32_t r = 0; r < count; ++r) {
    weigh_range(cache, queries + r, 1, queries[r].first(from),
                std::min(queries[r].last(to), common_first));
  }
  weigh_range(cache, queries, count, common_first, common_last);
  for (int32_t r = 0; r < count; ++r) {
    weigh_range(cache, queries + r, 1, std::max(queries[r].first(from), common_last),
                queries[r].last(to));
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

// Queries of one sequence that share a K/V head: consecutive rows, all or some of the head's group.
// Few of them (those of a decoding row) are done with a split before its values are there.
template <class Number>
HWY_INLINE void attend(const HeadCache<Number>& cache, Query* queries, int32_t count, float scale) {
  constexpr int32_t kFewQueries = 2;
  const int32_t dim = cache.head_dim;
  int32_t begin = queries[0].begin, end = queries[0].end;
  for (int32_t r = 0; r < count; ++r) {
    begin = std::min(begin, queries[r].begin);
    end = std::max(end, queries[r].end);
    std::fill_n(queries[r].total.values, dim, 0.0f);
  }
  for (int32_t from = begin; from < end;) {
    const int32_t origin = from / kAttentionSplit * kAttentionSplit;
    const int32_t to = std::min(end, origin + kAttentionSplit);
    if (count <= kFewQueries) prefetch_values(cache, from, to);
    score_split(cache, queries, count, from, to, scale);
    for (int32_t r = 0; r < count; ++r) {
      Query& query = queries[r];
      if (!query.touches(from, to)) continue;
      softmax_split(query.first(from) - origin, query.last(to) - origin, query.scores, query.split);
    }
    weigh_split(cache, queries, count, from, to);
    for (int32_t r = 0; r < count; ++r) {
      if (queries[r].touches(from, to)) merge_split(dim, queries[r].split, queries[r].total);
    }
    from = to;
  }
  for (int32_t r = 0; r < count; ++r) {
    const Partial& total = queries[r].total;
    const Lanes factor = splat(1.0f / total.sum);
    for_lanes(dim, [&](auto read, auto write) TINYLOOP_LAMBDA {
      write(multiply(read(total.values), factor), queries[r].out);
    });
  }
}

// Rows [row, row + rows) of one sequence, at consecutive positions, against one K/V head.
template <class Number>
HWY_INLINE void attend_rows(const AttentionArgs& args, int32_t row, int32_t rows, int32_t kv_head,
                            float scale, float* workspace) {
  const KvView& kv = args.cache;
  const KvLayout& layout = kv.layout;
  const int32_t group = args.heads / layout.kv_heads, table = kv.row_table[row];
  const int32_t window = kv.windows[table];
  const HeadCache<Number> cache{
      kv.pages + kv.tables[table],
      kv.layer_offset + layout.key_index(kv_head, 0, 0) * sizeof(Number),
      kv.layer_offset + layout.value_index(kv_head, 0, 0) * sizeof(Number), layout.head_dim};
  for (int32_t done = 0; done < rows * group; done += kAttentionQueries) {
    Query queries[kAttentionQueries];
    const int32_t count = std::min(kAttentionQueries, rows * group - done);
    float* space = workspace;
    for (int32_t i = 0; i < count; ++i) {
      const int32_t r = row + (done + i) / group, head = kv_head * group + (done + i) % group;
      const size_t column = size_t(head) * size_t(layout.head_dim);
      const int32_t position = kv.positions[r];
      queries[i] = {args.q.f32_row(r) + column,
                    args.out.f32_row(r) + column,
                    window > 0 ? std::max(0, position - window + 1) : 0,
                    position + 1,
                    space,
                    {.values = space + kAttentionSplit},
                    {.values = space + kAttentionSplit + layout.head_dim}};
      space += kAttentionSplit + 2 * layout.head_dim;
    }
    attend(cache, queries, count, scale);
  }
}

// Items [first, last) of the tiles of `tile_rows` rows, times the K/V heads. A tile is cut where
// the sequence changes or positions do not follow each other.
void attend_items(const AttentionArgs& args, int64_t first, int64_t last, int32_t tile_rows,
                  float scale, float* workspace) {
  const KvView& kv = args.cache;
  for (int64_t item = first; item < last; ++item) {
    const auto kv_head = int32_t(item % kv.layout.kv_heads);
    int32_t row = int32_t(item / kv.layout.kv_heads) * tile_rows;
    const int32_t end = std::min(row + tile_rows, args.rows);
    while (row < end) {
      int32_t next = row + 1;
      while (next < end && kv.row_table[next] == kv.row_table[row] &&
             kv.positions[next] == kv.positions[next - 1] + 1) {
        ++next;
      }
      if (kv.layout.type == ScalarType::f16) {
        attend_rows<hwy::float16_t>(args, row, next - row, kv_head, scale, workspace);
      } else {
        attend_rows<float>(args, row, next - row, kv_head, scale, workspace);
      }
      row = next;
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
  TINYLOOP_CHECK(layout.type == ScalarType::f32 || layout.type == ScalarType::f16);
  TINYLOOP_CHECK(layout.head_dim > 0 && layout.kv_heads > 0);
  TINYLOOP_CHECK(args.heads > 0 && args.heads % layout.kv_heads == 0);
  TINYLOOP_CHECK(kAttentionQueries * (kAttentionSplit + 2 * size_t(layout.head_dim)) <=
                 CpuContext::kWorkspaceFloats);
  if (args.rows == 0) return;
  const auto scale = float(1.0 / std::sqrt(double(layout.head_dim)));
  const int32_t tile = std::max(1, kAttentionQueries / (args.heads / layout.kv_heads));
  const int64_t tiles = (args.rows + tile - 1) / tile;
  cpu.for_items(tiles * layout.kv_heads, item_work(args) * std::min(tile, args.rows),
                [&](int64_t first, int64_t last, int32_t thread) {
                  HWY_DYNAMIC_DISPATCH(attend_items)
                  (args, first, last, tile, scale, cpu.workspace(thread));
                });
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
