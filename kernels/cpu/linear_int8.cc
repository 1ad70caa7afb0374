#define HWY_WANT_AVX3_DL  // AVX-512 with integer dot products
#include "kernels/cpu/linear_int8.h"

#include "kernels/cpu/targets.h"
#include "kernels/ffn_hidden.h"
#include "kernels/weight_panels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_int8.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/activation-inl.h"
#include "kernels/cpu/int8-dot-inl.h"
#include "kernels/cpu/quantise-inl.h"

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
  static constexpr size_t kCodes = kPanelOutputs * (kMinimum ? 4 : 2);  // bytes before the codes
  static constexpr int32_t kDwords = kNibbles ? 4 : 8;  // of codes an output in a block
  static constexpr size_t kBytes = kCodes + size_t(kPanelOutputs) * 4 * kDwords;

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
  const size_t panel_bytes = size_t(blocks) * panel_block_bytes(weights.type);
  const PanelJob job{weights.data + size_t(index) * panel_bytes, blocks, &layer, column,
                     HWY_MIN(kPanelOutputs, weights.rows - index * kPanelOutputs)};
  switch (weights.type) {
    case WeightType::q4_0:
      return multiply_panel_of<WeightType::q4_0>(job);
    case WeightType::q4_1:
      return multiply_panel_of<WeightType::q4_1>(job);
    default:
      return multiply_panel_of<WeightType::q8_0>(job);
  }
}

// Block `index` of the hidden vector of rows [first, first + rows): the panels of gate and up
// against these rows, into workspace[rows][64], and the activation of what they give.
void hidden_panel(const FfnHiddenArgs& args, int32_t index, int32_t first, int32_t rows,
                  float* workspace) {
  constexpr int32_t kStride = 2 * kPanelOutputs;
  const RowView x = args.x.from_row(first);
  const RowView both{workspace, ScalarType::f32, kStride, nullptr};
  if (args.gate) multiply_panel({args.gate, x, both, rows}, index, 0);
  multiply_panel({args.up, x, both, rows}, index, kPanelOutputs);
  for (int32_t r = 0; r < rows; ++r, workspace += kStride) {
    quantise_row(
        kPanelOutputs,
        [&](int32_t k) TINYLOOP_LAMBDA {
          const auto read = [k](const float* from) TINYLOOP_LAMBDA { return load(from + k); };
          return activate(args.type, read, workspace, workspace + kPanelOutputs);
        },
        args.y.q8_row(first + r) + index);
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
HWY_EXPORT(hidden_panel);

namespace {

void check_layer(const LinearArgs& layer) {
  TINYLOOP_CHECK(layer.x.type == ScalarType::q8 && layer.y.type == ScalarType::f32);
  TINYLOOP_CHECK(layer.weights.layout == WeightLayout::panels && layer.weights.data != nullptr);
  TINYLOOP_CHECK(has_panels(layer.weights.type) && layer.weights.cols % kPanelBlock == 0);
  TINYLOOP_CHECK(layer.rows >= 0);
}

// Panels handed out at a time: several chunks a thread, each of some microseconds.
int64_t chunk_panels(int64_t panels, int64_t multiply_adds, int32_t threads) {
  constexpr int64_t kLeastWork = 8 * CpuContext::kChunkWork;  // an integer product costs an eighth
  const int64_t least = kLeastWork * panels / std::max<int64_t>(multiply_adds, 1);
  const int64_t fair = panels / (int64_t{threads} * 4);
  return std::clamp<int64_t>(least, 1, std::max<int64_t>(fair, 1));
}

}  // namespace

void linear_int8_cpu(CpuContext& cpu, std::span<const LinearArgs> layers) {
  int64_t panels = 0, multiply_adds = 0;
  for (const LinearArgs& layer : layers) {
    check_layer(layer);
    if (layer.rows == 0) continue;
    panels += panel_count(layer.weights);
    multiply_adds += int64_t{layer.weights.rows} * layer.weights.cols * layer.rows;
  }
  const auto multiply = HWY_DYNAMIC_DISPATCH(multiply_panel);
  const int64_t chunk = chunk_panels(panels, multiply_adds, cpu.threads());
  cpu.pool().parallel_for(panels, chunk, [&](int64_t first, int64_t last, int32_t) {
    for (const LinearArgs& layer : layers) {
      const int64_t count = layer.rows == 0 ? 0 : panel_count(layer.weights);
      for (int64_t p = std::max<int64_t>(first, 0); p < std::min(last, count); ++p) {
        multiply(layer, int32_t(p), int32_t(p) * kPanelOutputs);
      }
      first -= count;
      last -= count;
    }
  });
}

void ffn_hidden_cpu(CpuContext& cpu, const FfnHiddenArgs& args) {
  constexpr int32_t kMostRows = 32;  // whose gate and up stay in the first-level cache
  static_assert(size_t(kMostRows) * 2 * kPanelOutputs <= CpuContext::kWorkspaceFloats);
  const WeightMatrix& up = args.up;
  TINYLOOP_CHECK(args.type == FfnType::relu2 || (args.gate.rows == up.rows && args.gate));
  TINYLOOP_CHECK(args.y.type == ScalarType::q8 && up.rows % kPanelOutputs == 0);
  const RowView any_f32{nullptr, ScalarType::f32, 0, nullptr};
  check_layer({up, args.x, any_f32, args.rows});
  if (args.gate) check_layer({args.gate, args.x, any_f32, args.rows});
  const int64_t panels = panel_count(up);
  const int64_t multiply_adds = int64_t{args.gate ? 2 : 1} * up.rows * up.cols * args.rows;
  const auto hidden = HWY_DYNAMIC_DISPATCH(hidden_panel);
  cpu.pool().parallel_for(panels, chunk_panels(panels, multiply_adds, cpu.threads()),
                          [&](int64_t first, int64_t last, int32_t thread) {
                            for (int64_t p = first; p < last; ++p) {
                              for (int32_t row = 0; row < args.rows; row += kMostRows) {
                                hidden(args, int32_t(p), row, std::min(kMostRows, args.rows - row),
                                       cpu.workspace(thread));
                              }
                            }
                          });
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
