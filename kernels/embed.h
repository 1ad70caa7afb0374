// Embedding gather: y[r] = scale · E[token[r]].
#pragma once

#include "kernels/row_view.h"
#include "kernels/weight.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

struct EmbedArgs {
  WeightMatrix table;               // E [vocab, d], any weight type
  const int32_t* tokens = nullptr;  // [rows], each in 0 .. vocab − 1 (checked by the caller)
  int32_t rows = 0;
  float scale = 1.0f;
  RowView y;  // [rows, d] f32
};

void embed_cpu(CpuContext& cpu, const EmbedArgs& args);
void embed_cuda(CudaContext& cuda, const EmbedArgs& args);

}  // namespace tinyloop::kernels
