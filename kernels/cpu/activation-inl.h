// The non-linear functions of the feed-forward layer (kernels/ffn_activation.h).
#if defined(TINYLOOP_KERNELS_CPU_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TINYLOOP_KERNELS_CPU_ACTIVATION_INL_H_
#undef TINYLOOP_KERNELS_CPU_ACTIVATION_INL_H_
#else
#define TINYLOOP_KERNELS_CPU_ACTIVATION_INL_H_
#endif

#include "kernels/cpu/exp-inl.h"
#include "kernels/ffn_activation.h"

HWY_BEFORE_NAMESPACE();
namespace tinyloop::kernels::HWY_NAMESPACE {

// exp(−z) stays finite by the bound on −z; below z = −88 silu is less than 1e-36 in size.
HWY_INLINE Lanes silu(const Lanes& z) {
  return map(
      [](auto v) TINYLOOP_LAMBDA {
        const FloatTag tag;
        const auto minus = hn::Min(hn::Neg(v), hn::Set(tag, 88.0f));
        return hn::Div(v, hn::Add(hn::Set(tag, 1.0f), hn::Exp(tag, minus)));
      },
      z);
}

HWY_INLINE Lanes squared_relu(const Lanes& z) {
  const Lanes positive = map(
      [](auto v) TINYLOOP_LAMBDA {  // by a comparison, which leaves NaN alone
        const auto zero = hn::Zero(FloatTag());
        return hn::IfThenElse(hn::Lt(v, zero), zero, v);
      },
      z);
  return multiply(positive, positive);
}

// read(rows) gives lanes of gate or up; gate is read for swiglu alone.
template <class Read>
HWY_INLINE Lanes activate(FfnType type, Read read, const float* gate, const float* up) {
  if (type == FfnType::swiglu) return multiply(silu(read(gate)), read(up));
  return squared_relu(read(up));
}

}  // namespace tinyloop::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
