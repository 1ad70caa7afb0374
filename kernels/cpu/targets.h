// Which SIMD targets Highway compiles the CPU ops for. Included before any Highway header.
#pragma once

// Where Highway has no SIMD it is to be its scalar target, with every compiler: emulated vectors
// would have to be a case of their own.
#define HWY_BROKEN_EMU128 1

// The order of every sum is written in the source.
#ifdef __FAST_MATH__
#error "TinyLoop must not be compiled with -ffast-math: results would depend on the batch"
#endif

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

// On AArch64 that leaves NEON alone: nothing to choose at run time. Told so (by this, its own name
// for it), Highway compiles for plain NEON; else it would want AES, too, by an attribute on each
// function, which GCC leaves out on implicit constructors: nothing could be inlined into them.
#if defined(__aarch64__)
#define TOOLCHAIN_MISS_SYS_AUXV_H
#endif
