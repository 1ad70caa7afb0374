// The exponential of all CPU ops: Highway's, whose error is at most 1 unit in the last place on
// (−inf, 104]; results below exp(−104) are 0, and that of NaN is NaN. Element by element, so that
// it is the same in every lane and row.
#if defined(TINYLOOP_KERNELS_CPU_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TINYLOOP_KERNELS_CPU_EXP_INL_H_
#undef TINYLOOP_KERNELS_CPU_EXP_INL_H_
#else
#define TINYLOOP_KERNELS_CPU_EXP_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

HWY_INLINE Lanes exponential(const Lanes& x) {
  return map(
      [](auto v)
          TINYLOOP_LAMBDA { return hn::IfThenElse(hn::Eq(v, v), hn::Exp(FloatTag(), v), v); },
      x);
}

HWY_INLINE float exponential(float x) {
  return x == x ? hn::GetLane(hn::Exp(FloatTag(), hn::Set(FloatTag(), x))) : x;
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
