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

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int32_t kLanes = 8;
using FloatTag = hn::CappedTag<float, kLanes>;
inline constexpr int32_t kPartLanes = int32_t(HWY_MIN(HWY_LANES(float), kLanes));
inline constexpr int32_t kParts = kLanes / kPartLanes;

struct Lanes {
  hn::Vec<FloatTag> part[kParts];
};

// Applies `op` to the parts of one or more operands.
template <class Op, class... Operands>
HWY_INLINE Lanes map(Op op, const Operands&... operands) {
  Lanes out;
  for (int i = 0; i < kParts; ++i) out.part[i] = op(operands.part[i]...);
  return out;
}

HWY_INLINE Lanes splat(float value) {
  Lanes out;
  for (auto& part : out.part) part = hn::Set(FloatTag(), value);
  return out;
}

HWY_INLINE Lanes load(const float* from) {
  Lanes out;
  for (int i = 0; i < kParts; ++i) out.part[i] = hn::LoadU(FloatTag(), from + i * kPartLanes);
  return out;
}

HWY_INLINE void store(const Lanes& lanes, float* to) {
  for (int i = 0; i < kParts; ++i) hn::StoreU(lanes.part[i], FloatTag(), to + i * kPartLanes);
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

// Calls body(index, load, store) over a vector of n elements, eight at a time. `load(p)` gives the
// lanes of p[index ..], `store(lanes, p)` writes them; both stay within the n elements.
template <class Body>
HWY_INLINE void for_lanes(int32_t n, Body body) {
  int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    body([i](const float* p) HWY_ATTR { return load(p + i); },
         [i](const Lanes& lanes, float* p) HWY_ATTR { store(lanes, p + i); });
  }
  if (const int32_t rest = n - i; rest > 0) {
    body([i, rest](const float* p) HWY_ATTR { return load_first(p + i, rest); },
         [i, rest](const Lanes& lanes, float* p) HWY_ATTR { store_first(lanes, p + i, rest); });
  }
}

HWY_INLINE Lanes add(const Lanes& a, const Lanes& b) {
  return map([](auto x, auto y) HWY_ATTR { return hn::Add(x, y); }, a, b);
}

HWY_INLINE Lanes multiply(const Lanes& a, const Lanes& b) {
  return map([](auto x, auto y) HWY_ATTR { return hn::Mul(x, y); }, a, b);
}

HWY_INLINE Lanes multiply_add(const Lanes& a, const Lanes& b, const Lanes& c) {
  return map([](auto x, auto y, auto z) HWY_ATTR { return hn::MulAdd(x, y, z); }, a, b, c);
}

HWY_INLINE Lanes maximum(const Lanes& a, const Lanes& b) {
  return map([](auto x, auto y) HWY_ATTR { return hn::Max(x, y); }, a, b);
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
