// Online softmax: what a row has of some positions, and how later positions join it.
#pragma once

#include <cmath>

namespace tinyloop::kernels {

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Maximum (in units of log 2, as scaled) and sum of what a row has seen; -inf, 0: nothing.
struct SoftmaxState {
  float most = -INFINITY;
  float sum = 0.0f;
};

// Takes in a later stretch of positions; the weighted values then become `keep` times their own
// plus `take` times the stretch's, where there was anything in it.
struct SoftmaxStep {
  float keep, take;
  bool any;

  __device__ void apply(float& value, float next) const {
    if (any) value = __fmaf_rn(value, keep, __fmul_rn(next, take));
  }
};
__device__ inline SoftmaxStep merge(SoftmaxState& state, const SoftmaxState& next) {
  const bool any = next.sum != 0.0f;  // NaN, too
  const float most = fmaxf(state.most, next.most);
  const SoftmaxStep step{exp2_fast(__fsub_rn(state.most, most)),
                         exp2_fast(__fsub_rn(next.most, most)), any};
  if (any) {
    state.sum = __fmaf_rn(state.sum, step.keep, __fmul_rn(next.sum, step.take));
    state.most = most;
  }
  return step;
}

// The weight of a score under a maximum, which is -inf where there is no position.
__device__ inline float weight_of(float score, float scale, float most) {
  return exp2_fast(__fmaf_rn(score, scale, most == -INFINITY ? 0.0f : -most));
}

}  // namespace tinyloop::kernels
