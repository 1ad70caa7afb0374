// Eight virtual lanes: the unit in which every CPU reduction is written, so that its order is the
// same whatever the vector length. Element k of a reduction belongs to lane k % 8; lanes are summed
// by one fixed tree: (l0+l4 + l2+l6) + (l1+l5 + l3+l7).
// Included once per SIMD target (see Highway's foreach_target.h).
#if defined(TINYLOOP_KERNELS_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TINYLOOP_KERNELS_CPU_LANES_INL_H_
#undef TINYLOOP_KERNELS_CPU_LANES_INL_H_
#else
#define TINYLOOP_KERNELS_CPU_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <utility>

// Highway's AVX-512 target with integer dot products (opt-in, by HWY_WANT_AVX3_DL) stands for
// machines that have AVX512-VNNI, but does not name it to the compiler.
#if HWY_TARGET == HWY_AVX3_DL
#undef HWY_TARGET_STR
#define HWY_TARGET_STR                                            \
  HWY_TARGET_STR_AVX3                                             \
  ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512bitalg," \
  "avx512vpopcntdq,avx512vnni"
#endif

// Loops over registers are written with compile-time indices and lambdas that must be inlined:
// then arrays of Lanes never touch memory, at any optimisation level.
#ifndef TINYLOOP_LAMBDA
#define TINYLOOP_LAMBDA HWY_ATTR __attribute__((always_inline))
#endif

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int32_t kLanes = 8;
using FloatTag = hn::CappedTag<float, kLanes>;
inline constexpr int32_t kPartLanes = int32_t(HWY_MIN(HWY_LANES(float), kLanes));
inline constexpr int32_t kParts = kLanes / kPartLanes;

// body(0), body(1), … with the index as a compile-time constant.
template <int32_t... kIndex, class Body>
HWY_INLINE void repeat_each(Body body, std::integer_sequence<int32_t, kIndex...>) {
  (body(std::integral_constant<int32_t, kIndex>()), ...);
}

template <int32_t kCount, class Body>
HWY_INLINE void repeat(Body body) {
  repeat_each(body, std::make_integer_sequence<int32_t, kCount>());
}

struct Lanes {
  hn::Vec<FloatTag> part[kParts];
};

// { part(0), part(1), … }. No loop: arrays of Lanes stay in registers at any optimisation level.
template <class Part, int32_t... kIndex>
HWY_INLINE Lanes build(Part part, std::integer_sequence<int32_t, kIndex...>) {
  return {{part(kIndex)...}};
}

template <class Part>
HWY_INLINE Lanes build(Part part) {
  return build(part, std::make_integer_sequence<int32_t, kParts>());
}

// Applies `op` to the parts of one or more operands.
template <class Op, class... Operands>
HWY_INLINE Lanes map(Op op, const Operands&... operands) {
  return build([&](int32_t i) TINYLOOP_LAMBDA { return op(operands.part[i]...); });
}

HWY_INLINE Lanes splat(float value) {
  return build([=](int32_t) TINYLOOP_LAMBDA { return hn::Set(FloatTag(), value); });
}

HWY_INLINE Lanes load(const float* from) {
  return build([=](int32_t i)
                   TINYLOOP_LAMBDA { return hn::LoadU(FloatTag(), from + i * kPartLanes); });
}

HWY_INLINE void store(const Lanes& lanes, float* to) {
  repeat<kParts>(
      [&](auto i) TINYLOOP_LAMBDA { hn::StoreU(lanes.part[i], FloatTag(), to + i * kPartLanes); });
}

// The first n < 8 lanes from memory, the others 0; touches no memory beyond them.
HWY_INLINE Lanes load_first(const float* from, int32_t n) {
  HWY_ALIGN float whole[kLanes] = {};
  std::memcpy(whole, from, size_t(n) * sizeof(float));
  return load(whole);
}

HWY_INLINE void store_first(const Lanes& lanes, float* to, int32_t n) {
  HWY_ALIGN float whole[kLanes];
  store(lanes, whole);
  std::memcpy(to, whole, size_t(n) * sizeof(float));
}

// Calls body(load, store) over a vector of n elements, eight at a time. `load(p)` gives the
// lanes of p[index ..], `store(lanes, p)` writes them; both stay within the n elements.
template <class Body>
HWY_INLINE void for_lanes(int32_t n, Body body) {
  int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    body([i](const float* p) TINYLOOP_LAMBDA { return load(p + i); },
         [i](const Lanes& lanes, float* p) TINYLOOP_LAMBDA { store(lanes, p + i); });
  }
  if (const int32_t rest = n - i; rest > 0) {
    body([i, rest](const float* p) TINYLOOP_LAMBDA { return load_first(p + i, rest); },
         [i, rest](const Lanes& lanes, float* p)
             TINYLOOP_LAMBDA { store_first(lanes, p + i, rest); });
  }
}

HWY_INLINE Lanes add(const Lanes& a, const Lanes& b) {
  return map([](auto x, auto y) TINYLOOP_LAMBDA { return hn::Add(x, y); }, a, b);
}

HWY_INLINE Lanes multiply(const Lanes& a, const Lanes& b) {
  return map([](auto x, auto y) TINYLOOP_LAMBDA { return hn::Mul(x, y); }, a, b);
}

HWY_INLINE Lanes multiply_add(const Lanes& a, const Lanes& b, const Lanes& c) {
  return map([](auto x, auto y, auto z) TINYLOOP_LAMBDA { return hn::MulAdd(x, y, z); }, a, b, c);
}

HWY_INLINE Lanes maximum(const Lanes& a, const Lanes& b) {
  return map([](auto x, auto y) TINYLOOP_LAMBDA { return hn::Max(x, y); }, a, b);
}

// out[i] = the sum of lane vector i.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void sum4(const Lanes& a, const Lanes& b, const Lanes& c, const Lanes& d, float* out) {
  const Lanes* all[4] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i) {
    float l[kLanes];
    store(*all[i], l);
    out[i] = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
  }
}
#else
using QuadTag = hn::FixedTag<float, 4>;
using Quad = hn::Vec<QuadTag>;

// Lane i + lane i + 4, for i < 4. A template, so that only the branch that fits is compiled.
template <class L>
HWY_INLINE Quad fold(const L& a) {
  if constexpr (kParts == 2) {
    return hn::Add(a.part[0], a.part[1]);
  } else {
    return hn::Add(hn::LowerHalf(QuadTag(), a.part[0]), hn::UpperHalf(QuadTag(), a.part[0]));
  }
}

HWY_INLINE void sum4(const Lanes& a, const Lanes& b, const Lanes& c, const Lanes& d, float* out) {
  const QuadTag tag;
  const Quad fa = fold(a), fb = fold(b), fc = fold(c), fd = fold(d);
  const Quad ab = hn::Add(hn::InterleaveLower(tag, fa, fb), hn::InterleaveUpper(tag, fa, fb));
  const Quad cd = hn::Add(hn::InterleaveLower(tag, fc, fd), hn::InterleaveUpper(tag, fc, fd));
  const Quad low = hn::ConcatLowerLower(tag, cd, ab), high = hn::ConcatUpperUpper(tag, cd, ab);
  hn::StoreU(hn::Add(low, high), tag, out);
}
#endif

HWY_INLINE float sum(const Lanes& a) {
  float sums[4];
  sum4(a, a, a, a, sums);
  return sums[0];
}

HWY_INLINE float largest(const Lanes& a) {
  float lanes[kLanes];
  store(a, lanes);
  float best = lanes[0];
  for (float lane : lanes) best = lane > best ? lane : best;
  return best;
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
