// The output head: logits[r, v] = softcap(Σ_k W[v, k] · x[r, k]), softcap(z) = c · tanh(z / c), or
// z when c = 0. The sum is that of the linear layer.
#pragma once

#include "kernels/row_view.h"
#include "kernels/weight.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

struct LogitsArgs {
  WeightMatrix head;        // W [vocab, d], any weight type
  RowView x;                // [rows, d] scratch type; q8 where the head lies in panels
  float* logits = nullptr;  // [rows, vocab] f32, dense
  int32_t rows = 0;
  float softcap = 0.0f;
};

void logits_cpu(CpuContext& cpu, const LogitsArgs& args);
void logits_cuda(CudaContext& cuda, const LogitsArgs& args);

}  // namespace tinyloop::kernels
