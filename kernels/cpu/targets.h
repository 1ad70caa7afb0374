// Which SIMD targets Highway compiles the CPU ops for. Included before any Highway header.
#pragma once

// Left out: targets whose vector length is not known when compiling (the ops keep arrays of
// vectors), and SSSE3, which no machine without SSE4 is worth having.
#define TINYLOOP_UNUSED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)

// A sanitizer checks the source, which is one for all targets: AVX2 and the scalar code are enough,
// and the builds are much shorter.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HWY_DISABLED_TARGETS (TINYLOOP_UNUSED_TARGETS | HWY_AVX3_DL | HWY_AVX3 | HWY_SSE4)
#else
#define HWY_DISABLED_TARGETS TINYLOOP_UNUSED_TARGETS
#endif
