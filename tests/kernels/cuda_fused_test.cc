// Ops that do the work of several: the same bits for every number of rows and whoever prepares
// their norm, and what the ops give one after another, but for the roundings of the norm's rows.
#include <cmath>
#include <cstring>

#include "kernels/rope.h"
#include "tests/support/op_cache.h"
#include "tests/support/op_test.h"

namespace tinyloop::testing {
namespace {

using kernels::RmsNormArgs;
using kernels::RowView;
using kernels::ScalarType;
using kernels::WeightType;

constexpr int32_t kRows = 300;
// The rows are run in slices, around the borders of 8, 16, 32, 64 and 128 rows, where other kernels
// take over.
constexpr int32_t kSlices[] = {1, 8, 9, 16, 17, 33, 64, 65, 130, 257};
constexpr RowLayout kLayouts[] = {RowLayout::dense, RowLayout::scattered};
constexpr int32_t kBranch = 96;  // inputs of the matrix whose product is added to the rows
constexpr float kEps = 1e-5f;

class CudaFusedTest : public OpTest {
 protected:
  OpMatrix matrix(int32_t rows, int32_t cols, RowLayout layout, ScalarType type) {
    return {backend(), rows, cols, layout, random(), type};
  }

  // Calls run(row, rows) for slices of kRows rows.
  template <class Run>
  static void in_slices(int32_t slice, Run run) {
    for (int32_t row = 0; row < kRows; row += slice) run(row, std::min(slice, kRows - row));
  }

  // `want` has been rounded elsewhere: to FP16 once a number that is multiplied.
  static ::testing::AssertionResult about(const std::vector<float>& got,
                                          const std::vector<float>& want) {
    float most = 0.0f, error = 0.0f;
    for (size_t i = 0; i < want.size(); ++i) {
      most = std::max(most, std::abs(want[i]));
      if (!(std::abs(got[i] - want[i]) <= error)) error = std::abs(got[i] - want[i]);
    }
    if (error <= 2e-3f * most) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "off by " << error << ", the largest is " << most;
  }
};

// The residual stream, to which a branch is added ahead of the norm.
struct Residual {
  Residual(kernels::Backend& backend, WeightType type, int32_t width, OpRandom& random)
      : cols(width),
        values(random.values(size_t(kRows) * size_t(width), 8.0f)),
        weights(backend, type, width, kBranch, random),
        branch(backend, kRows, kBranch, RowLayout::dense, random,
               random.values(size_t(kRows) * kBranch), ScalarType::f16),
        norm_weight(backend, random.values(size_t(width), 2.0f)) {}

  OpMatrix start(kernels::Backend& backend, RowLayout layout, OpRandom& random) const {
    return {backend, kRows, cols, layout, random, values};
  }
  kernels::LinearArgs layer(const OpMatrix& x, int32_t row, int32_t rows) const {
    return {weights.matrix(), branch.view().from_row(row), x.view().from_row(row), rows};
  }
  RmsNormArgs norm(const OpMatrix& x, const RowView& y, int32_t row, int32_t rows) const {
    return {.x = x.view().from_row(row),
            .y = y,
            .weight = norm_weight.data(),
            .rows = rows,
            .cols = cols,
            .eps = kEps};
  }

  int32_t cols;
  std::vector<float> values;
  OpWeights weights;
  OpMatrix branch;
  DeviceArray<float> norm_weight;
};

// Types of the q, k and v matrices.
struct QkvTypes {
  WeightType q, k, v;
};
constexpr QkvTypes kQkvTypes[] = {
    {WeightType::q4_0, WeightType::q4_0, WeightType::q4_0},
    {WeightType::q4_1, WeightType::q4_1, WeightType::q4_1},
    {WeightType::q8_0, WeightType::q8_0, WeightType::q8_0},
    {WeightType::f16, WeightType::f32, WeightType::bf16},
    {WeightType::q4_1, WeightType::q4_1, WeightType::q8_0},
};
constexpr AttentionShape kShapes[] = {{4, 2, 16}, {9, 3, 64}, {2, 1, 34}, {3, 3, 128}, {2, 1, 256}};

// The matrices and tables of one attention layer.
struct QkvLayer {
  static constexpr int32_t kContext = 200;  // of each of two sequences

  QkvLayer(kernels::Backend& backend, const QkvTypes& types, const AttentionShape& of,
           int32_t width, OpRandom& random)
      : shape(of),
        cols(width),
        q(backend, types.q, of.heads * of.head_dim, width, random),
        k(backend, types.k, of.kv_heads * of.head_dim, width, random),
        v(backend, types.v, of.kv_heads * of.head_dim, width, random),
        residual(backend, types.q, width, random),
        cos_sin(backend, rope_table(of.head_dim)) {}

  static std::vector<float> rope_table(int32_t head_dim) {
    std::vector<float> table(size_t(kContext) * size_t(head_dim));
    kernels::fill_rope_table(table.data(), kContext, head_dim, 10000.0f);
    return table;
  }

  AttentionShape shape;
  int32_t cols;
  OpWeights q, k, v;
  Residual residual;
  DeviceArray<float> cos_sin;
};

class CudaQkvTest : public CudaFusedTest {
 protected:
  struct Result {
    std::vector<float> q;
    std::vector<std::byte> cache;
  };

  // The rows from `row` on of a view of all of them.
  static kernels::KvView from_row(kernels::KvView view, int32_t row) {
    view.row_table += row;
    view.positions += row;
    return view;
  }
  // 0 for a NaN: nothing has been put there.
  static float number_of(uint16_t half) {
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31) return 0.0f;
    const float size = exponent == 0 ? std::ldexp(float(fraction), -24)
                                     : std::ldexp(float(fraction + 1024), exponent - 25);
    return half >> 15 ? -size : size;
  }
  static std::vector<float> halves_of(const std::vector<std::byte>& bytes) {
    std::vector<float> values;
    for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
      uint16_t half;
      std::memcpy(&half, bytes.data() + i, 2);
      values.push_back(number_of(half));
    }
    return values;
  }

  // slice 0: the ops one after another.
  Result run(const QkvLayer& layer, const CacheRows& rows, int32_t slice, bool prepares,
             RowLayout layout) {
    const AttentionShape& shape = layer.shape;
    const int32_t kv_cols = shape.kv_heads * shape.head_dim;
    OpRandom pages(kSeed);  // the same for all
    const CachedSequence empty{QkvLayer::kContext, 0, {}, {}};
    const DeviceCacheRows device_rows(backend(), rows, shape.heads / shape.kv_heads);
    const OpCache cache(backend(), ScalarType::f16, shape, {empty, empty}, {0, 0}, pages);
    const kernels::KvView view = cache.view(device_rows);
    const OpMatrix x = layer.residual.start(backend(), layout, random());
    const OpMatrix normed = matrix(kRows, layer.cols, RowLayout::dense, ScalarType::f16);
    const OpMatrix q = matrix(kRows, shape.heads * shape.head_dim, layout, ScalarType::f32);
    const OpMatrix k = matrix(kRows, kv_cols, RowLayout::dense, ScalarType::f32);
    const OpMatrix v = matrix(kRows, kv_cols, RowLayout::dense, ScalarType::f32);
    const float* table = layer.cos_sin.data();
    in_slices(slice ? slice : kRows, [&](int32_t row, int32_t count) {
      const RowView in = normed.view();
      RmsNormArgs norm = layer.residual.norm(x, in, row, count);
      const kernels::LinearArgs branch = layer.residual.layer(x, row, count);
      const kernels::LinearArgs layers[] = {{layer.q.matrix(), in, q.view().from_row(row), count},
                                            {layer.k.matrix(), in, k.view().from_row(row), count},
                                            {layer.v.matrix(), in, v.view().from_row(row), count}};
      const kernels::KvView part = from_row(view, row);
      if (prepares) {
        norm.prepared = backend().linear_add_before(branch, {}, norm);
        EXPECT_TRUE(norm.prepared);
      } else {
        backend().linear_add(branch, {});
      }
      if (slice) {
        return backend().qkv({norm, layers[0], layers[1], layers[2], part, table, shape.heads});
      }
      backend().rms_norm(norm);
      backend().linear_all(layers);
      backend().rope({q.view(), part.positions, table, count, shape.heads, shape.head_dim});
      backend().rope({k.view(), part.positions, table, count, shape.kv_heads, shape.head_dim});
      backend().kv_append({k.view(), v.view(), part, count});
    });
    EXPECT_TRUE(q.untouched());
    return {q.values(), cache.storage()};
  }

  void check(const QkvLayer& layer, size_t turn) {
    CacheRows rows;
    for (int32_t place : random().distinct(kRows, 2 * QkvLayer::kContext)) {
      rows.add(place / QkvLayer::kContext, place % QkvLayer::kContext);
    }
    const Result apart = run(layer, rows, 0, false, RowLayout::dense);
    const Result want = run(layer, rows, kRows, false, RowLayout::dense);
    EXPECT_TRUE(about(want.q, apart.q));
    EXPECT_TRUE(about(halves_of(want.cache), halves_of(apart.cache)));
    for (int32_t slice : kSlices) {
      const RowLayout layout = kLayouts[turn++ % 2];
      const bool prepares = turn % 3 != 0;
      SCOPED_TRACE(::testing::Message() << "slices of " << slice << ", prepared " << prepares);
      const Result got = run(layer, rows, slice, prepares, layout);
      EXPECT_TRUE(same_bits(want.q, got.q));
      EXPECT_TRUE(want.cache == got.cache) << "the caches differ";
    }
  }
};

TEST_P(CudaQkvTest, ARowIsTheSameInEveryBatchAndWhoeverPreparesIt) {
  ASSERT_TRUE(backend().wants_qkv());
  constexpr int32_t kCols[] = {96, 576, 1408};
  size_t turn = 0;
  for (const QkvTypes& types : kQkvTypes) {
    for (const AttentionShape& shape : kShapes) {
      const int32_t cols = kCols[turn++ % std::size(kCols)];
      SCOPED_TRACE(::testing::Message()
                   << weight_format(types.q).name << ", " << weight_format(types.v).name
                   << ", heads " << shape.heads << "/" << shape.kv_heads << ", head_dim "
                   << shape.head_dim << ", " << cols << " columns");
      check({backend(), types, shape, cols, random()}, turn);
    }
  }
}

class CudaNormedHiddenTest : public CudaFusedTest {
 protected:
  // slice 0: the ops one after another.
  std::vector<float> run(const OpWeights& gate, const OpWeights& up, const Residual& residual,
                         kernels::FfnType type, int32_t slice, bool prepares, RowLayout layout) {
    const int32_t cols = up.matrix().cols, ffn = up.matrix().rows;
    const OpMatrix x = residual.start(backend(), layout, random());
    const OpMatrix normed = matrix(kRows, cols, RowLayout::dense, ScalarType::f16);
    const OpMatrix y = matrix(kRows, ffn, layout, ScalarType::f32);
    in_slices(slice ? slice : kRows, [&](int32_t row, int32_t count) {
      RmsNormArgs norm = residual.norm(x, normed.view(), row, count);
      const kernels::LinearArgs branch = residual.layer(x, row, count);
      kernels::FfnHiddenArgs hidden{.type = type,
                                    .gate = gate.matrix(),
                                    .up = up.matrix(),
                                    .x = normed.view(),
                                    .y = y.view().from_row(row),
                                    .rows = count};
      if (type == kernels::FfnType::relu2) hidden.gate = {};
      if (prepares) {
        norm.prepared = backend().linear_add_before(branch, {}, norm);
      } else {
        backend().linear_add(branch, {});
      }
      if (slice) return backend().normed_ffn_hidden(norm, hidden);
      backend().rms_norm(norm);
      backend().ffn_hidden(hidden);
    });
    EXPECT_TRUE(y.untouched());
    return y.values();
  }
};

TEST_P(CudaNormedHiddenTest, ARowIsTheSameInEveryBatchAndWhoeverPreparesIt) {
  size_t turn = 0;
  for (WeightType type : {WeightType::q4_0, WeightType::q4_1, WeightType::q8_0, WeightType::f16}) {
    for (int32_t cols : {32, 96, 576, 1408}) {
      const OpWeights gate(backend(), type, 150, cols, random());
      const OpWeights up(backend(), type, 150, cols, random());
      const Residual residual(backend(), type, cols, random());
      for (auto ffn : {kernels::FfnType::swiglu, kernels::FfnType::relu2}) {
        SCOPED_TRACE(::testing::Message()
                     << weight_format(type).name << ", " << cols << " columns"
                     << (ffn == kernels::FfnType::swiglu ? ", swiglu" : ", relu2"));
        const auto apart = run(gate, up, residual, ffn, 0, false, RowLayout::dense);
        const auto want = run(gate, up, residual, ffn, kRows, false, RowLayout::dense);
        EXPECT_TRUE(about(want, apart));
        for (int32_t slice : kSlices) {
          const RowLayout layout = kLayouts[turn++ % 2];
          const bool prepares = turn % 3 != 0;
          EXPECT_TRUE(same_bits(want, run(gate, up, residual, ffn, slice, prepares, layout)))
              << "slices of " << slice << ", prepared " << prepares;
        }
      }
    }
  }
}

// A branch behind a norm of its own: the ops one after another, to the bit; and the norm that it
// prepares is that of the rows that it leaves.
TEST_P(CudaNormedHiddenTest, ABranchBehindANormJoinsTheStream) {
  for (int32_t cols : {32, 90, 576, 5000}) {
    const OpWeights up(backend(), WeightType::q4_0, 40, (cols + 31) / 32 * 32, random());
    const Residual residual(backend(), WeightType::f16, cols, random());
    const DeviceArray<float> weight(backend(), random().values(size_t(cols), 2.0f));
    const auto values = random().values(size_t(kRows) * size_t(cols), 3.0f);
    for (RowLayout layout : kLayouts) {
      SCOPED_TRACE(::testing::Message() << cols << " columns");
      const OpMatrix branch(backend(), kRows, cols, RowLayout::dense, random(), values,
                            ScalarType::f16);
      const OpMatrix normed = matrix(kRows, cols, RowLayout::dense, ScalarType::f16);
      const OpMatrix want = residual.start(backend(), layout, random());
      const OpMatrix got = residual.start(backend(), layout, random());
      const OpMatrix next_rows = matrix(kRows, cols, RowLayout::dense, ScalarType::f16);
      const RmsNormArgs norm{.x = branch.view(),
                             .y = normed.view(),
                             .weight = weight.data(),
                             .rows = kRows,
                             .cols = cols,
                             .eps = kEps};
      backend().rms_norm(norm);
      backend().residual_add({normed.view(), want.view(), kRows, cols});
      RmsNormArgs next = residual.norm(got, next_rows.view(), 0, kRows);
      next.prepared = backend().normed_add({norm, got.view()}, &next);
      EXPECT_TRUE(next.prepared);
      EXPECT_TRUE(same_bits(want.values(), got.values()));
      EXPECT_TRUE(got.untouched());
      if (up.matrix().cols != cols) continue;
      const OpMatrix hidden = matrix(kRows, 40, RowLayout::dense, ScalarType::f32);
      const OpMatrix again = matrix(kRows, 40, RowLayout::dense, ScalarType::f32);
      backend().normed_ffn_hidden(next, {.type = kernels::FfnType::relu2,
                                         .gate = {},
                                         .up = up.matrix(),
                                         .x = next_rows.view(),
                                         .y = hidden.view(),
                                         .rows = kRows});
      next.prepared = false;
      backend().normed_ffn_hidden(next, {.type = kernels::FfnType::relu2,
                                         .gate = {},
                                         .up = up.matrix(),
                                         .x = next_rows.view(),
                                         .y = again.view(),
                                         .rows = kRows});
      EXPECT_TRUE(same_bits(again.values(), hidden.values()));
    }
  }
}

TINYLOOP_ON_CUDA(CudaQkvTest);
TINYLOOP_ON_CUDA(CudaNormedHiddenTest);

}  // namespace
}  // namespace tinyloop::testing
