// Keys and values that are stored and attended to in one list of launches: kernels begin while the
// one ahead of them still runs, and attention reads keys ahead of its wait. What has not been
// stored yet is NaN, so whoever reads too early shows it.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/rope.h"
#include "tests/support/op_cache.h"
#include "tests/support/op_test.h"

namespace tinyloop::testing {
namespace {

using kernels::ScalarType;
using kernels::WeightType;

constexpr float kEps = 1e-5f;
constexpr int32_t kPasses = 5;  // of two launches or more each
// Groups of some heads, of one, and one whose row fills two narrow tiles; large heads, and heads
// with a rest.
constexpr AttentionShape kShapes[] = {{8, 2, 64}, {3, 3, 128}, {16, 1, 64},
                                      {4, 2, 80}, {2, 1, 256}, {4, 2, 34}};
// Rows that a pass adds to a table.
constexpr int32_t kRuns[] = {1, 3, 21, 1, 70, 2, 1};

// Some sequences and what the passes add to each: runs of rows that begin where the run of the pass
// before has ended, one run a table, as kernels/kv_page.h asks.
struct Passes {
  std::vector<int32_t> before;   // [table] positions that the cache holds
  std::vector<CacheRows> rows;   // [pass]
  std::vector<int32_t> context;  // [table] after the last pass

  Passes(std::vector<int32_t> contexts, bool decode) : before(contexts), context(contexts) {
    for (size_t pass = 0; pass < size_t{kPasses}; ++pass) {
      rows.emplace_back();
      for (size_t table = 0; table < context.size(); ++table) {
        const int32_t count = decode ? 1 : kRuns[(pass + 2 * table) % std::size(kRuns)];
        for (int32_t i = 0; i < count; ++i) rows[pass].add(int32_t(table), context[table]++);
      }
    }
  }
};

// A few tables, whose rows are shared by the blocks of clusters or cut into wide tiles; and many.
std::vector<Passes> all_passes() {
  std::vector<int32_t> many;
  for (int32_t table = 0; table < 140; ++table) many.push_back(40 + table);
  return {{{700}, true}, {{63, 256, 1000}, false}, {{590, 129}, true}, {many, true}};
}

// What one pass reads and writes.
struct PassData {
  PassData(kernels::Backend& backend, const CacheRows& of, const AttentionShape& shape,
           OpRandom& random)
      : rows(of),
        device_rows(backend, of, shape.heads / shape.kv_heads),
        out(backend, of.count(), shape.heads * shape.head_dim, RowLayout::dense, random) {}

  CacheRows rows;
  DeviceCacheRows device_rows;
  OpMatrix out;
};

class CudaOverlapTest : public OpTest {
 protected:
  void TearDown() override {
    reset_cache();
    OpTest::TearDown();
  }
  void reset_cache() {
    passes_.clear();
    cache_.reset();
  }

  OpMatrix matrix(int32_t rows, int32_t cols, ScalarType type, const std::vector<float>& values) {
    return {backend(), rows, cols, RowLayout::dense, random(), values, type};
  }

  // The sequences as the cache holds them in the end, and a cache that holds those of `before`.
  void make_cache(const AttentionShape& shape, const Passes& passes) {
    reset_cache();
    shape_ = shape;
    sequences_.clear();
    std::vector<CachedSequence> stored_before;
    for (size_t table = 0; table < passes.context.size(); ++table) {
      sequences_.push_back(
          random_sequence(ScalarType::f16, shape, passes.context[table], 0, random()));
      stored_before.push_back(sequences_.back());
      for (int32_t p = passes.before[table]; p < passes.context[table]; ++p) {
        put(stored_before.back(), p, std::vector<float>(size_t(kv_cols()), poison()),
            std::vector<float>(size_t(kv_cols()), poison()));
      }
    }
    cache_ = std::make_unique<OpCache>(backend(), ScalarType::f16, shape, stored_before,
                                       std::vector<int32_t>(passes.context.size(), 0), random());
    for (const CacheRows& rows : passes.rows) {
      passes_.push_back(std::make_unique<PassData>(backend(), rows, shape, random()));
    }
  }

  int32_t q_cols() const { return shape_.heads * shape_.head_dim; }
  int32_t kv_cols() const { return shape_.kv_heads * shape_.head_dim; }

  // One position of all K/V heads.
  void put(CachedSequence& sequence, int32_t position, const std::vector<float>& keys,
           const std::vector<float>& values) const {
    for (int32_t i = 0; i < kv_cols(); ++i) {
      const int32_t head = i / shape_.head_dim, dim = i % shape_.head_dim;
      const auto at = size_t((head * sequence.context + position) * shape_.head_dim + dim);
      sequence.keys[at] = keys[size_t(i)];
      sequence.values[at] = values[size_t(i)];
    }
  }
  // Keys or values of a pass's rows, as the sequences have them.
  std::vector<float> rows_of(const CacheRows& rows,
                             std::vector<float> CachedSequence::*which) const {
    std::vector<float> all;
    for (size_t r = 0; r < size_t(rows.count()); ++r) {
      const CachedSequence& s = sequences_[size_t(rows.tables[r])];
      for (int32_t head = 0; head < shape_.kv_heads; ++head) {
        const auto from =
            (s.*which).begin() + ptrdiff_t(head * s.context + rows.positions[r]) * shape_.head_dim;
        all.insert(all.end(), from, from + shape_.head_dim);
      }
    }
    return all;
  }

  double largest_value() const {
    float most = 0.0f;
    for (const CachedSequence& s : sequences_) {
      for (float value : s.values) most = std::max(most, std::fabs(value));
    }
    return most;
  }

  // Takes back what the passes have stored.
  void forget_rows() {
    for (const auto& pass : passes_) {
      const int32_t rows = pass->rows.count();
      const std::vector<float> none(size_t(rows) * size_t(kv_cols()), poison());
      const OpMatrix nothing = matrix(rows, kv_cols(), ScalarType::f32, none);
      backend().kv_append({nothing.view(), nothing.view(), cache_->view(pass->device_rows), rows});
      backend().synchronise();
    }
  }

  // What attention gives in every pass, where store(pass, wait) puts the rows of a pass into the
  // cache and its queries into q[pass]. With `wait`, each op has ended before the next begins.
  template <class Store>
  std::vector<std::vector<float>> run(const std::vector<OpMatrix>& q, Store store, bool wait) {
    forget_rows();
    for (size_t p = 0; p < passes_.size(); ++p) {
      const PassData& pass = *passes_[p];
      store(p);
      if (wait) backend().synchronise();
      backend().attention({q[p].view(), pass.out.view(), cache_->view(pass.device_rows),
                           pass.rows.count(), shape_.heads});
      if (wait) backend().synchronise();
    }
    std::vector<std::vector<float>> out;
    for (const auto& pass : passes_) out.push_back(pass->out.values());
    return out;
  }

  // `store` as for run(); after learn() the sequences are what has been stored.
  template <class Store, class Learn>
  void check(const std::vector<OpMatrix>& q, Store store, Learn learn) {
    const auto want = run(q, store, true);
    learn();
    // Of few keys, where nothing cancels, the roundings of the weights and of the result show
    // whole. The least weights are rounded by 2^-25 of the largest, which shows where it has a
    // value close to 0.
    const double bound = 3 * tolerance().attention, least = 0.003 * largest_value();
    for (size_t p = 0; p < passes_.size(); ++p) {
      Expected expected = reference_attention(shape_, sequences_, passes_[p]->rows, q[p].values());
      for (double& size : expected.magnitude) size += least;
      EXPECT_TRUE(near(want[p], expected, bound)) << "pass " << p;
    }
    // A list that keeps coming is recorded as a graph, then replayed.
    for (int32_t round = 0; round < 8; ++round) {
      const auto got = run(q, store, false);
      for (size_t p = 0; p < passes_.size(); ++p) {
        EXPECT_TRUE(same_bits(want[p], got[p])) << "pass " << p << ", round " << round;
      }
    }
  }

  AttentionShape shape_{};
  std::vector<CachedSequence> sequences_;
  std::vector<std::unique_ptr<PassData>> passes_;
  std::unique_ptr<OpCache> cache_;
};

TEST_P(CudaOverlapTest, RowsAreAttendedToAsSoonAsTheyAreStored) {
  for (const Passes& passes : all_passes()) {
    for (const AttentionShape& shape : kShapes) {
      SCOPED_TRACE(::testing::Message()
                   << passes.before.size() << " tables, heads " << shape.heads << "/"
                   << shape.kv_heads << ", head_dim " << shape.head_dim);
      make_cache(shape, passes);
      std::vector<OpMatrix> q, k, v;
      for (const CacheRows& rows : passes.rows) {
        const int32_t count = rows.count();
        q.push_back(matrix(count, q_cols(), ScalarType::f16,
                           random().values(size_t(count) * size_t(q_cols()), 2.0f)));
        k.push_back(
            matrix(count, kv_cols(), ScalarType::f32, rows_of(rows, &CachedSequence::keys)));
        v.push_back(
            matrix(count, kv_cols(), ScalarType::f32, rows_of(rows, &CachedSequence::values)));
      }
      const auto store = [&](size_t p) {
        const PassData& pass = *passes_[p];
        backend().kv_append(
            {k[p].view(), v[p].view(), cache_->view(pass.device_rows), pass.rows.count()});
      };
      check(q, store, [] {});
    }
  }
}

// The beginning of an attention layer.
struct LayerWeights {
  LayerWeights(kernels::Backend& backend, WeightType type, const AttentionShape& shape,
               int32_t cols, int32_t positions, OpRandom& random)
      : q(backend, type, shape.heads * shape.head_dim, cols, random),
        k(backend, type, shape.kv_heads * shape.head_dim, cols, random),
        v(backend, type, shape.kv_heads * shape.head_dim, cols, random),
        norm(backend, random.values(size_t(cols), 2.0f)),
        cos_sin(backend, rope_table(positions, shape.head_dim)) {}

  static std::vector<float> rope_table(int32_t positions, int32_t head_dim) {
    std::vector<float> table(size_t(positions) * size_t(head_dim));
    kernels::fill_rope_table(table.data(), positions, head_dim, 10000.0f);
    return table;
  }

  OpWeights q, k, v;
  DeviceArray<float> norm, cos_sin;
};

class CudaQkvOverlapTest : public CudaOverlapTest {
 protected:
  static constexpr int32_t kCols = 192;

  struct Inputs {
    std::vector<OpMatrix> x, normed, q;  // [pass]
  };

  kernels::RmsNormArgs norm(const LayerWeights& layer, const Inputs& in, size_t p) const {
    return {.x = in.x[p].view(),
            .y = in.normed[p].view(),
            .weight = layer.norm.data(),
            .rows = passes_[p]->rows.count(),
            .cols = kCols,
            .eps = kEps};
  }
  void qkv(const LayerWeights& layer, const Inputs& in, size_t p) {
    const int32_t rows = passes_[p]->rows.count();
    const kernels::RowView x = in.normed[p].view();
    backend().qkv({norm(layer, in, p),
                   {layer.q.matrix(), x, in.q[p].view(), rows},
                   {layer.k.matrix(), x, {}, rows},
                   {layer.v.matrix(), x, {}, rows},
                   cache_->view(passes_[p]->device_rows),
                   layer.cos_sin.data(),
                   shape_.heads});
  }
  // Puts into the sequences what qkv has stored: CudaQkvTest holds it to the ops one after another.
  void learn_rows() {
    const auto storage = cache_->storage();
    for (const auto& pass : passes_) {
      for (int32_t r = 0; r < pass->rows.count(); ++r) {
        const auto table = size_t(pass->rows.tables[size_t(r)]);
        cache_->learn(storage, table, pass->rows.positions[size_t(r)], sequences_[table]);
      }
    }
  }
};

TEST_P(CudaQkvOverlapTest, RowsAreAttendedToAsSoonAsTheyAreStored) {
  for (const Passes& passes : all_passes()) {
    for (const AttentionShape& shape : kShapes) {
      for (WeightType type : {WeightType::q4_1, WeightType::f16}) {
        SCOPED_TRACE(::testing::Message() << passes.before.size() << " tables, heads "
                                          << shape.heads << "/" << shape.kv_heads << ", head_dim "
                                          << shape.head_dim << ", " << weight_format(type).name);
        make_cache(shape, passes);
        const int32_t most = *std::max_element(passes.context.begin(), passes.context.end());
        const LayerWeights layer(backend(), type, shape, kCols, most, random());
        Inputs in;
        for (const CacheRows& rows : passes.rows) {
          const int32_t count = rows.count();
          in.x.push_back(matrix(count, kCols, ScalarType::f32,
                                random().values(size_t(count) * size_t(kCols), 8.0f)));
          in.normed.push_back(matrix(count, kCols, ScalarType::f16, {}));
          in.q.push_back(matrix(count, q_cols(), ScalarType::f16, {}));
        }
        check(
            in.q, [&](size_t p) { qkv(layer, in, p); }, [&] { learn_rows(); });
      }
    }
  }
}

TINYLOOP_ON_CUDA(CudaOverlapTest);
TINYLOOP_ON_CUDA(CudaQkvOverlapTest);

}  // namespace
}  // namespace tinyloop::testing
