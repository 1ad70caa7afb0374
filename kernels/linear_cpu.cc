#include "kernels/cpu/targets.h"
#include "kernels/linear.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_cpu.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/decode-inl.h"
#include "kernels/cpu/dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

// Four outputs of kRows rows, the weights decoded in registers. Each sum is that of dot_tile: the
// same lanes, in the same order.
template <class Decoder, int32_t kRows>
HWY_INLINE void dot_encoded(const std::byte* const* w, const float* const* x, int32_t k,
                            float* out) {
  constexpr int32_t kVectors = Decoder::kValues / kLanes;
  Lanes sums[kRows][4];
  repeat<kRows>([&](auto r) TINYLOOP_LAMBDA {
    sums[r][0] = sums[r][1] = sums[r][2] = sums[r][3] = splat(0.0f);
  });
  const int32_t blocks = k / Decoder::kValues;
  for (int32_t b = 0; b < blocks; ++b) {
    repeat<4>([&](auto o) TINYLOOP_LAMBDA {
      Lanes values[kVectors];
      Decoder::block(w[o] + size_t(b) * Decoder::kBytes, values);
      repeat<kVectors>([&](auto j) TINYLOOP_LAMBDA {
        repeat<kRows>([&](auto r) TINYLOOP_LAMBDA {
          const Lanes xr = load(x[r] + b * Decoder::kValues + j * kLanes);
          sums[r][o] = multiply_add(values[j], xr, sums[r][o]);
        });
      });
    });
  }
  if constexpr (kVectors == 1) {
    if (const int32_t rest = k - blocks * kLanes; rest > 0) {
      repeat<4>([&](auto o) TINYLOOP_LAMBDA {
        Lanes values;
        Decoder::first(w[o] + size_t(blocks) * Decoder::kBytes, rest, &values);
        repeat<kRows>([&](auto r) TINYLOOP_LAMBDA {
          const Lanes xr = load_first(x[r] + blocks * kLanes, rest);
          sums[r][o] = multiply_add(values, xr, sums[r][o]);
        });
      });
    }
  }
  repeat<kRows>([&](auto r) TINYLOOP_LAMBDA {
    sum4(sums[r][0], sums[r][1], sums[r][2], sums[r][3], out + 4 * r);
  });
}

template <class Decoder>
HWY_INLINE void dot_encoded_rows(int32_t rows, const std::byte* const* w, const float* const* x,
                                 int32_t k, float* out) {
  if constexpr (kTileRows >= 4) {
    if (rows == 4) return dot_encoded<Decoder, 4>(w, x, k, out);
    if (rows == 3) return dot_encoded<Decoder, 3>(w, x, k, out);
  }
  if constexpr (kTileRows >= 2) {
    if (rows == 2) return dot_encoded<Decoder, 2>(w, x, k, out);
  }
  dot_encoded<Decoder, 1>(w, x, k, out);
}

// sums[rows][4] → outputs [o, o + count) of rows r ….
HWY_INLINE void write_sums(const LinearArgs& args, int32_t r, int32_t rows, int32_t o,
                           int32_t count, const float* sums) {
  for (int32_t i = 0; i < rows; ++i) {
    std::memcpy(args.y.f32_row(r + i) + o, sums + 4 * i, size_t(count) * sizeof(float));
  }
}

// Outputs [first, last) without a decoded tile: for few rows, and for rows too wide for the tile.
template <class Decoder>
HWY_INLINE void linear_by_row(const LinearArgs& args, int32_t first, int32_t last) {
  const WeightMatrix& weights = args.weights;
  const size_t row_bytes = weights.row_bytes();
  for (int32_t o = first; o < last; o += 4) {
    const int32_t count = HWY_MIN(4, last - o);
    const std::byte* w[4];
    for (int32_t j = 0; j < 4; ++j) w[j] = weights.data + size_t(o + j % count) * row_bytes;
    for (int32_t r = 0; r < args.rows; r += kTileRows) {
      const int32_t rows = HWY_MIN(kTileRows, args.rows - r);
      const float* x[kTileRows];
      for (int32_t i = 0; i < rows; ++i) x[i] = args.x.f32_row(r + i);
      float sums[kTileRows * 4];
      dot_encoded_rows<Decoder>(rows, w, x, weights.cols, sums);
      write_sums(args, r, rows, o, count, sums);
    }
  }
}

// All rows against `count` decoded outputs from `first` on, in tile[count][stride].
HWY_INLINE void multiply_tile(const LinearArgs& args, int32_t first, int32_t count,
                              const float* tile, int32_t stride) {
  for (int32_t r = 0; r < args.rows; r += kTileRows) {
    const int32_t rows = HWY_MIN(kTileRows, args.rows - r);
    const float* x[kTileRows];
    for (int32_t i = 0; i < rows; ++i) x[i] = args.x.f32_row(r + i);
    for (int32_t o = 0; o < count; o += 4) {
      const int32_t valid = HWY_MIN(4, count - o);
      const float* w[4];
      for (int32_t j = 0; j < 4; ++j) w[j] = tile + size_t(o + j % valid) * size_t(stride);
      float sums[kTileRows * 4];
      dot_tile(rows, w, x, args.weights.cols, sums);
      write_sums(args, r, rows, first + o, valid, sums);
    }
  }
}

// Outputs [first, last), decoded `step` at a time into `tile`, which then serves all rows.
template <class Decoder>
HWY_INLINE void linear_by_tile(const LinearArgs& args, int32_t first, int32_t last, int32_t step,
                               float* tile) {
  const WeightMatrix& weights = args.weights;
  const int32_t stride = (weights.cols + kLanes - 1) / kLanes * kLanes;
  for (int32_t o = first; o < last; o += step) {
    const int32_t count = HWY_MIN(step, last - o);
    for (int32_t j = 0; j < count; ++j) {
      decode_row<Decoder>(weights.data + size_t(o + j) * weights.row_bytes(), weights.cols,
                          tile + size_t(j) * size_t(stride));
    }
    multiply_tile(args, o, count, tile, stride);
  }
}

// `step`: outputs in a decoded tile, or 0 to decode for each row anew.
void linear_outputs(const LinearArgs& args, int32_t first, int32_t last, int32_t step,
                    float* tile) {
  with_decoder(args.weights.type, [&](auto decoder) TINYLOOP_LAMBDA {
    using Decoder = decltype(decoder);
    if (step == 0) {
      linear_by_row<Decoder>(args, first, last);
    } else {
      linear_by_tile<Decoder>(args, first, last, step, tile);
    }
  });
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/panel_product.h"

namespace tinyloop::kernels {

HWY_EXPORT(linear_outputs);

namespace {

// Outputs of a tile: half the workspace, which leaves room in the second-level cache for the rows.
// Few rows take a small tile that stays in the first level.
int32_t tile_outputs(int32_t rows, int32_t cols) {
  constexpr int32_t kFew = 8;
  const int64_t stride = (int64_t{cols} + 7) / 8 * 8;
  const int64_t fit = int64_t{CpuContext::kWorkspaceFloats} / stride;
  if (rows <= kFew || fit == 0) return 0;
  if (fit < 8) return int32_t(std::min<int64_t>(fit, 4));
  return int32_t(fit / 2 / 4 * 4);
}

// Outputs of a chunk: several chunks a thread, whole tiles, enough work to be worth handing out.
int64_t chunk_outputs(const LinearArgs& args, int32_t tile, int32_t threads) {
  const int64_t most = std::max<int64_t>(tile, CpuContext::kChunkWork / args.weights.cols + 1);
  const int64_t work = int64_t{args.weights.cols} * args.rows;
  const int64_t least = CpuContext::kChunkWork / work + 1;
  const int64_t fair = args.weights.rows / (int64_t{threads} * 2) + 1;
  return (std::max(least, std::min(most, fair)) + 3) / 4 * 4;
}

void linear_f32(CpuContext& cpu, const LinearArgs& args) {
  const WeightMatrix& weights = args.weights;
  TINYLOOP_CHECK(args.x.type == ScalarType::f32 && args.y.type == ScalarType::f32);
  TINYLOOP_CHECK(weights.data != nullptr && weights.cols > 0 && args.rows >= 0);
  TINYLOOP_CHECK(weights.cols % weight_format(weights.type).block_values == 0);
  if (args.rows == 0) return;
  const int32_t tile = tile_outputs(args.rows, weights.cols);
  const int64_t chunk = chunk_outputs(args, tile, cpu.threads());
  cpu.pool().parallel_for(weights.rows, chunk, [&](int64_t first, int64_t last, int32_t thread) {
    HWY_DYNAMIC_DISPATCH(linear_outputs)
    (args, int32_t(first), int32_t(last), tile, cpu.workspace(thread));
  });
}

// Layers whose weights lie in panels, worked on side by side.
void linear_int8(CpuContext& cpu, std::span<const LinearArgs> layers) {
  int64_t panels = 0, multiply_adds = 0;
  for (const LinearArgs& layer : layers) {
    check_panels(layer.weights, layer.x);
    TINYLOOP_CHECK(layer.y.type == ScalarType::f32 && layer.rows >= 0);
    if (layer.rows == 0) continue;
    panels += panel_count(layer.weights);
    multiply_adds += int64_t{layer.weights.rows} * layer.weights.cols * layer.rows;
  }
  const PanelProduct product = panel_product();
  const int64_t chunk = chunk_panels(panels, multiply_adds, cpu.threads());
  cpu.pool().parallel_for(panels, chunk, [&](int64_t first, int64_t last, int32_t) {
    for (const LinearArgs& layer : layers) {
      const int64_t count = layer.rows == 0 ? 0 : panel_count(layer.weights);
      for (int64_t p = std::max<int64_t>(first, 0); p < std::min(last, count); ++p) {
        product(layer, int32_t(p), int32_t(p) * kPanelOutputs);
      }
      first -= count;
      last -= count;
    }
  });
}

}  // namespace

void linear_cpu(CpuContext& cpu, std::span<const LinearArgs> layers) {
  const auto in_panels = [](const LinearArgs& layer) {
    return layer.weights.layout == WeightLayout::panels;
  };
  if (std::all_of(layers.begin(), layers.end(), in_panels)) return linear_int8(cpu, layers);
  for (const LinearArgs& layer : layers) {
    if (in_panels(layer)) {
      linear_int8(cpu, {&layer, 1});
    } else {
      linear_f32(cpu, layer);
    }
  }
}

}  // namespace tinyloop::kernels
#endif  // HWY_ONCE
