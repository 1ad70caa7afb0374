// y += rms(x) · w: a branch behind a norm of its own joins the residual stream.
#pragma once

#include "kernels/rms_norm.h"

namespace tinyloop::kernels {

struct NormedAddArgs {
  RmsNormArgs norm;  // groups = 1; its y has the shape of x and the scratch type, and may be used
                     // on the way; x and y may be the same rows
  RowView y;         // [rows, cols] f32
};

// What norm.y would hold is rounded to its type before it is added. `next`: the norm to be taken of
// y, or null; whether it has been prepared (RmsNormArgs::prepared).
bool normed_add_cuda(CudaContext& cuda, const NormedAddArgs& args, const RmsNormArgs* next);

}  // namespace tinyloop::kernels
