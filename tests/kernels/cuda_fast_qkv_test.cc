// The fast mode: the beginning of an attention layer, and how the backend starts.
#ifdef TINYLOOP_WITH_CUDA

#include <cmath>
#include <cstring>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/rope.h"
#include "tests/kernels/cuda_fast.h"
#include "tests/support/op_cache.h"
#include "tests/support/quantise.h"

namespace tinyloop::testing {
namespace {

using kernels::RowView;
using kernels::ScalarType;
using kernels::WeightType;

constexpr int32_t kContext = 300;  // of each of two sequences

std::vector<float> rope_table(int32_t head_dim) {
  std::vector<float> table(size_t(kContext) * size_t(head_dim));
  kernels::fill_rope_table(table.data(), kContext, head_dim, 10000.0f);
  return table;
}

class CudaFastQkvTest : public CudaFastOpTest {
 protected:
  struct Result {
    std::vector<float> q;
    std::vector<uint16_t> cache;
  };

  // Rows that differ in the last bits of their sums differ by one rounding in FP16; so do rows that
  // the factor of their norm meets ahead of the product or behind it. NaNs and all that is not
  // written: to the bit.
  static void expect_near(const Result& got, const Result& want, int32_t cols) {
    const double most = 2e-4 * cols;
    ASSERT_EQ(got.q.size(), want.q.size());
    for (size_t i = 0; i < got.q.size(); ++i) ASSERT_NEAR(got.q[i], want.q[i], most) << i;
    ASSERT_EQ(got.cache.size(), want.cache.size());
    for (size_t i = 0; i < got.cache.size(); ++i) {
      if (got.cache[i] == want.cache[i]) continue;
      const double a = double(from_half(got.cache[i])), b = double(from_half(want.cache[i]));
      ASSERT_LE(std::abs(a - b), most + 1e-3 * std::abs(b)) << "half " << i << " of the cache";
    }
  }
};

TEST_P(CudaFastQkvTest, AgreesWithOurOwnKernels) {
  constexpr AttentionShape kShapes[] = {{4, 2, 16}, {9, 3, 64}, {2, 1, 34}, {3, 3, 128}};
  constexpr int32_t kCols = 576;
  for (const AttentionShape& shape : kShapes) {
    const int32_t q_cols = shape.heads * shape.head_dim, kv_cols = shape.kv_heads * shape.head_dim;
    const FastWeights q(backend(), WeightType::q4_1, q_cols, kCols, random());
    const FastWeights k(backend(), WeightType::q4_1, kv_cols, kCols, random());
    const FastWeights v(backend(), WeightType::q4_1, kv_cols, kCols, random());
    const DeviceArray<float> norm(backend(), random().values(size_t(kCols), 2.0f));
    const DeviceArray<float> cos_sin(backend(), rope_table(shape.head_dim));
    for (int32_t count : {128, 129, 300, 513}) {
      CacheRows rows;
      for (int32_t place : random().distinct(count, 2 * kContext)) {
        rows.add(place / kContext, place % kContext);
      }
      const DeviceCacheRows device_rows(backend(), rows, shape.heads / shape.kv_heads);
      const auto values = random().values(size_t(count) * size_t(kCols), 8.0f);
      const OpMatrix x(backend(), count, kCols, RowLayout::scattered, random(), values);
      const auto run = [&](bool copied) {
        const auto of = [&](const FastWeights& w) { return copied ? w.copied() : w.tiled(); };
        OpRandom pages(kSeed);  // the same for both
        const CachedSequence empty{kContext, 0, {}, {}};
        const OpCache cache(backend(), ScalarType::f16, shape, {empty, empty}, {0, 0}, pages);
        const OpMatrix normed = matrix(count, kCols, RowLayout::dense, ScalarType::f16);
        const OpMatrix to = matrix(count, q_cols, RowLayout::scattered, ScalarType::f32);
        const RowView in = normed.view();
        backend().qkv({{.x = x.view(),
                        .y = in,
                        .weight = norm.data(),
                        .rows = count,
                        .cols = kCols,
                        .eps = 1e-5f},
                       {of(q), in, to.view(), count},
                       {of(k), in, {}, count},
                       {of(v), in, {}, count},
                       cache.view(device_rows),
                       cos_sin.data(),
                       shape.heads});
        EXPECT_TRUE(to.untouched());
        const auto bytes = cache.storage();
        std::vector<uint16_t> halves(bytes.size() / 2);
        std::memcpy(halves.data(), bytes.data(), halves.size() * 2);
        return Result{to.values(), halves};
      };
      SCOPED_TRACE(::testing::Message() << "heads " << shape.heads << "/" << shape.kv_heads
                                        << ", head_dim " << shape.head_dim << ", " << count);
      const Result got = run(true), want = run(false);
      expect_near(got, want, kCols);
      if (count <= 128) {
        EXPECT_TRUE(same_bits(want.q, got.q));
        EXPECT_TRUE(want.cache == got.cache);
      }
    }
  }
}

class CudaFastStartTest : public CudaFastOpTest {};

TEST_P(CudaFastStartTest, WithoutTheLibraryNothingStarts) {
  constexpr const char* kNames[] = {"libnot-there.so"};
  for (int round = 0; round < 3; ++round) {
    try {
      const kernels::CudaBackend none(0, 0, ArithmeticMode::fast, kNames);
      ADD_FAILURE() << "no error";
    } catch (const base::Failure& failure) {
      EXPECT_EQ(failure.error().code, errc::invalid_argument);
      EXPECT_NE(failure.error().detail.find("libnot-there.so: "), std::string::npos)
          << failure.error().detail;
    }
    // Another mode does not ask for it.
    const kernels::CudaBackend f16(0, 0, ArithmeticMode::f16, kNames);
    EXPECT_FALSE(f16.wants_fp16_copies());
  }
}

TEST_P(CudaFastStartTest, ItsWorkSpaceIsCountedAndBounded) {
  const size_t needed = backend_with(1)->memory().used_total();
  EXPECT_GE(needed, size_t{64} << 20);  // the library's, and that of sums
  const ModelOptions options{
      .device = "cuda:0", .mode = ArithmeticMode::fast, .memory_budget_bytes = size_t{20} << 20};
  const auto backend = kernels::make_backend(options);
  ASSERT_TRUE(backend.has_error());
  EXPECT_EQ(backend.error().code, errc::out_of_memory);
  EXPECT_NE(backend.error().detail.find("cuBLAS work space: "), std::string::npos)
      << backend.error().detail;
}

TINYLOOP_IN_FAST_MODE(CudaFastQkvTest);
TINYLOOP_IN_FAST_MODE(CudaFastStartTest);

}  // namespace
}  // namespace tinyloop::testing

#endif
