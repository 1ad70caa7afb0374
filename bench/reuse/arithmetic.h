// Multiply-adds of a prompt, counted from a model's shape.
#pragma once

#include "tinyloop/model.h"

namespace tinyloop::bench {

// Layers that one position runs.
inline int32_t layers(const ModelInfo& info, int32_t loops) {
  return info.prelude_layers + loops * info.shared_layers + info.coda_layers;
}

// Of the layers' work, the part that resuming leaves out. Attention is in it: every layer attends
// to the same positions, so that its share is the same in each. Embedding and head, which runs for
// one position, are not.
inline double skipped_by_resume(const ModelInfo& info, int32_t from, int32_t to) {
  return double(info.prelude_layers + from * info.shared_layers) / layers(info, to);
}

// Multiply-adds of one layer's matrices for one position: 4 d² in attention and 8 d² in the
// feed-forward part, near which most shapes lie. They weigh the linear part against attention
// alone; the command line can state the exact figure.
inline double usual_layer_macs(const ModelInfo& info) {
  return 12.0 * info.d_model * info.d_model;
}

// One layer, positions [0, n): n · layer_macs for the matrices, 2 · d · n (n + 1) / 2 for the
// products of attention (scores and values, position p with p + 1 positions).
inline double prompt_macs(const ModelInfo& info, double layer_macs, double n) {
  return n * layer_macs + info.d_model * n * (n + 1);
}

}  // namespace tinyloop::bench
