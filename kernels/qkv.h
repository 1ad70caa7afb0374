// The beginning of an attention layer in one op: q, k, v = W · rms(x); q and k turned by RoPE; k
// and v stored at the row's position in its pages.
#pragma once

#include "kernels/kv_page.h"
#include "kernels/linear.h"
#include "kernels/rms_norm.h"

namespace tinyloop::kernels {

struct QkvArgs {
  RmsNormArgs norm;  // of the layer's input; its y is the layers' x, and may be left unwritten
  LinearArgs q, k, v;
  KvView cache;
  const float* cos_sin = nullptr;  // kernels/rope.h
  int32_t heads = 0;               // K/V heads and head_dim are the cache's
};

// For matrices in tiles, no norm over heads.
void qkv_cuda(CudaContext& cuda, const QkvArgs& args);

}  // namespace tinyloop::kernels
