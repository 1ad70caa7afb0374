// The inner product of the f32 linear layer: four vectors of weights against up to kTileRows rows,
// in registers.
#if defined(TINYLOOP_KERNELS_CPU_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TINYLOOP_KERNELS_CPU_DOT_INL_H_
#undef TINYLOOP_KERNELS_CPU_DOT_INL_H_
#else
#define TINYLOOP_KERNELS_CPU_DOT_INL_H_
#endif

#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

// 4 · kTileRows accumulators must fit the target's vector registers beside their operands.
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
inline constexpr int32_t kTileRows = 4;  // 32 registers of 8 lanes
#elif HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2
inline constexpr int32_t kTileRows = 1;  // 16 registers of 4 lanes
#else
inline constexpr int32_t kTileRows = 2;  // 16 registers of 8 lanes, or 32 of 4
#endif

template <int32_t kRows>
HWY_INLINE void dot_tile_of(const float* const* w, const float* const* x, int32_t k, float* out) {
  Lanes sums[kRows][4];
  repeat<kRows>([&](auto r) TINYLOOP_LAMBDA {
    sums[r][0] = sums[r][1] = sums[r][2] = sums[r][3] = splat(0.0f);
  });
  for_lanes(k, [&](auto read, auto) TINYLOOP_LAMBDA {
    const Lanes w0 = read(w[0]), w1 = read(w[1]), w2 = read(w[2]), w3 = read(w[3]);
    repeat<kRows>([&](auto r) TINYLOOP_LAMBDA {
      const Lanes xr = read(x[r]);
      sums[r][0] = multiply_add(w0, xr, sums[r][0]);
      sums[r][1] = multiply_add(w1, xr, sums[r][1]);
      sums[r][2] = multiply_add(w2, xr, sums[r][2]);
      sums[r][3] = multiply_add(w3, xr, sums[r][3]);
    });
  });
  repeat<kRows>([&](auto r) TINYLOOP_LAMBDA {
    sum4(sums[r][0], sums[r][1], sums[r][2], sums[r][3], out + 4 * r);
  });
}

// out[rows][4]: out[r][o] = Σ_k w[o][k] · x[r][k], for 1 <= rows <= kTileRows. Each sum is the same
// whatever the other vectors of the tile are.
inline HWY_NOINLINE void dot_tile(int32_t rows, const float* const* w, const float* const* x,
                                  int32_t k, float* out) {
  if constexpr (kTileRows >= 4) {
    if (rows == 4) return dot_tile_of<4>(w, x, k, out);
    if (rows == 3) return dot_tile_of<3>(w, x, k, out);
  }
  if constexpr (kTileRows >= 2) {
    if (rows == 2) return dot_tile_of<2>(w, x, k, out);
  }
  dot_tile_of<1>(w, x, k, out);
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
