#define HWY_WANT_AVX3_DL  // AVX-512 with integer dot products
#include "kernels/cpu/panel_product.h"

#include "kernels/cpu/targets.h"
#include "kernels/weight_panels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/panel_product.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/int8-dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

using OutputFloats = hn::Vec<OutputTag>;

inline constexpr int32_t kPanelVectors = kPanelOutputs / kOutputLanes;

// Rows of the widest tile: as many as the target has registers for.
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
inline constexpr int32_t kRowTile = 8;
#else
inline constexpr int32_t kRowTile = 4;
#endif

// Output vectors of a tile of `rows`: with few rows several, so that there are independent sums.
constexpr int32_t tile_vectors(int32_t rows) {
  return HWY_MAX(1, HWY_MIN(kPanelVectors, HWY_MIN(4, kRowTile / rows)));
}

template <WeightType kType>
struct PanelFormat {
  static constexpr bool kNibbles = kType != WeightType::q8_0;
  static constexpr bool kMinimum = kType == WeightType::q4_1;
  static constexpr size_t kCodes = panel_scale_bytes(kType);
  static constexpr int32_t kDwords = kNibbles ? 4 : 8;  // of codes an output in a block
  static constexpr size_t kBytes = panel_block_bytes(kType);
  static_assert(kBytes == kCodes + size_t(kPanelOutputs) * 4 * kDwords);

  static HWY_INLINE int32_t offset(const QuantisedBlock& x) {
    if constexpr (kType == WeightType::q4_0) return x.minus_8_sums;
    if constexpr (kType == WeightType::q8_0) return x.minus_8_sums * 16;
    return 0;
  }
};

HWY_INLINE OutputFloats load_halves(const std::byte* from) {
  const hn::Rebind<hwy::float16_t, OutputTag> tag;
  return hn::PromoteTo(OutputTag(), hn::LoadU(tag, reinterpret_cast<const hwy::float16_t*>(from)));
}

// sums[r][v] += block of panel vector v · block of row r.
template <class Format, int32_t kRows, int32_t kVectors>
HWY_INLINE void add_block(const std::byte* block, int32_t first_vector,
                          const QuantisedBlock* const (&x)[kRows],
                          OutputFloats (&sums)[kRows][kVectors]) {
  using BlockDot = Dot<Format::kNibbles>;
  typename BlockDot::Acc dots[kRows][kVectors];
  repeat<kRows>([&](auto r) TINYLOOP_LAMBDA {
    repeat<kVectors>([&](auto v)
                         TINYLOOP_LAMBDA { dots[r][v] = BlockDot::begin(Format::offset(*x[r])); });
  });
  const std::byte* codes = block + Format::kCodes + size_t(first_vector) * kOutputLanes * 4;
  repeat<Format::kDwords>([&](auto j) TINYLOOP_LAMBDA {
    repeat<kVectors>([&](auto v) TINYLOOP_LAMBDA {
      const Codes four = load_codes4(codes + (j * kPanelOutputs + v * kOutputLanes) * 4);
      if constexpr (Format::kNibbles) {
        const Codes low = low_halves(four), high = high_halves(four);
        repeat<kRows>([&](auto r) TINYLOOP_LAMBDA {
          BlockDot::add(dots[r][v], low, x[r]->codes + 4 * j);
          BlockDot::add(dots[r][v], high, x[r]->codes + 16 + 4 * j);
        });
      } else {
        repeat<kRows>(
            [&](auto r) TINYLOOP_LAMBDA { BlockDot::add(dots[r][v], four, x[r]->codes + 4 * j); });
      }
    });
  });
  repeat<kVectors>([&](auto v) TINYLOOP_LAMBDA {
    const std::byte* scales = block + size_t(first_vector + v) * kOutputLanes * 2;
    const OutputFloats d = load_halves(scales);
    repeat<kRows>([&](auto r) TINYLOOP_LAMBDA {
      const OutputFloats scale = hn::Mul(d, hn::Set(OutputTag(), x[r]->scale));
      const OutputInts dot = BlockDot::end(dots[r][v], Format::offset(*x[r]));
      sums[r][v] = hn::MulAdd(hn::ConvertTo(OutputTag(), dot), scale, sums[r][v]);
    });
    if constexpr (Format::kMinimum) {
      const OutputFloats m = load_halves(scales + kPanelOutputs * 2);
      repeat<kRows>([&](auto r) TINYLOOP_LAMBDA {
        sums[r][v] = hn::MulAdd(m, hn::Set(OutputTag(), x[r]->scaled_sum), sums[r][v]);
      });
    }
  });
}

// A panel and the rows it is to be multiplied with.
struct PanelJob {
  const std::byte* panel;
  int32_t blocks;
  const LinearArgs* layer;
  int32_t column;   // of y, for the panel's first output
  int32_t outputs;  // 32, or fewer at the matrix's end
};

// Rows [row, row + kRows) against vectors [first_vector, first_vector + kVectors) of the panel.
template <class Format, int32_t kRows, int32_t kVectors>
HWY_INLINE void multiply_tile(const PanelJob& job, int32_t row, int32_t first_vector) {
  const QuantisedBlock* x[kRows];
  OutputFloats sums[kRows][kVectors];
  repeat<kRows>([&](auto r) TINYLOOP_LAMBDA {
    x[r] = job.layer->x.q8_row(row + r);
    repeat<kVectors>([&](auto v) TINYLOOP_LAMBDA { sums[r][v] = hn::Zero(OutputTag()); });
  });
  const std::byte* block = job.panel;
  for (int32_t b = 0; b < job.blocks; ++b, block += Format::kBytes) {
    add_block<Format, kRows, kVectors>(block, first_vector, x, sums);
    repeat<kRows>([&](auto r) TINYLOOP_LAMBDA { ++x[r]; });
  }
  repeat<kRows>([&](auto r) TINYLOOP_LAMBDA {
    float* y = job.layer->y.f32_row(row + r) + job.column;
    repeat<kVectors>([&](auto v) TINYLOOP_LAMBDA {
      const int32_t place = (first_vector + v) * kOutputLanes;
      if (place + kOutputLanes <= job.outputs) {
        hn::StoreU(sums[r][v], OutputTag(), y + place);
      } else if (place < job.outputs) {
        float whole[kOutputLanes];
        hn::StoreU(sums[r][v], OutputTag(), whole);
        std::memcpy(y + place, whole, size_t(job.outputs - place) * sizeof(float));
      }
    });
  });
}

// As many whole tiles of kRows as there are, from `row` on; returns the first row left over.
template <class Format, int32_t kRows>
HWY_INLINE int32_t multiply_rows(const PanelJob& job, int32_t row) {
  constexpr int32_t kVectors = tile_vectors(kRows);
  const int32_t end = row + (job.layer->rows - row) / kRows * kRows;
  for (int32_t v = 0; v < kPanelVectors; v += kVectors) {
    for (int32_t r = row; r < end; r += kRows) multiply_tile<Format, kRows, kVectors>(job, r, v);
  }
  return end;
}

template <WeightType kType>
void multiply_panel_of(const PanelJob& job) {
  using Format = PanelFormat<kType>;
  int32_t row = 0;
  if constexpr (kRowTile == 8) row = multiply_rows<Format, 8>(job, row);
  row = multiply_rows<Format, 4>(job, row);
  row = multiply_rows<Format, 2>(job, row);
  multiply_rows<Format, 1>(job, row);
}

// Panel `index` of a layer against all its rows; the outputs go to y from `column` on.
void multiply_panel(const LinearArgs& layer, int32_t index, int32_t column) {
  const WeightMatrix& weights = layer.weights;
  const int32_t blocks = weights.cols / kPanelBlock;
  const PanelJob job{weights.data + size_t(index) * panel_bytes(weights.type, weights.cols), blocks,
                     &layer, column, HWY_MIN(kPanelOutputs, weights.rows - index * kPanelOutputs)};
  switch (weights.type) {
    case WeightType::q4_0:
      return multiply_panel_of<WeightType::q4_0>(job);
    case WeightType::q4_1:
      return multiply_panel_of<WeightType::q4_1>(job);
    default:
      return multiply_panel_of<WeightType::q8_0>(job);
  }
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/cpu_context.h"

namespace tinyloop::kernels {

HWY_EXPORT(multiply_panel);

PanelProduct panel_product() {
  return HWY_DYNAMIC_DISPATCH(multiply_panel);
}

void check_panels(const WeightMatrix& weights, const RowView& x) {
  TINYLOOP_CHECK(weights.layout == WeightLayout::panels && weights.data != nullptr);
  TINYLOOP_CHECK(has_panels(weights.type) && weights.cols % kPanelBlock == 0);
  TINYLOOP_CHECK(x.type == ScalarType::q8);
}

int64_t chunk_panels(int64_t panels, int64_t multiply_adds, int32_t threads) {
  constexpr int64_t kLeastWork = 8 * CpuContext::kChunkWork;  // an integer product costs an eighth
  const int64_t least = kLeastWork * panels / std::max<int64_t>(multiply_adds, 1);
  const int64_t fair = panels / (int64_t{threads} * 4);
  return std::clamp<int64_t>(least, 1, std::max<int64_t>(fair, 1));
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
