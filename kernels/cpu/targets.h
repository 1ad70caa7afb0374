// Which SIMD targets Highway compiles the CPU ops for. Included before any Highway header.
#pragma once

// Left out: targets whose vector length is not known when compiling (the ops keep arrays of
// vectors), and SSSE3, which no machine without SSE4 is worth having.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)
