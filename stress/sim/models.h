// The model files that simulations load, and what the reference needs to know of them.
#pragma once

#include <string>
#include <vector>

#include "stress/sim/mathematics.h"
#include "tests/support/random_model.h"

namespace tinyloop::sim {

// A weight's word: the first eight bytes of the tensor.
struct LayerTags {
  Word attn_norm, q, k, v, o, attn_post_norm, ffn_norm, gate, up, down, ffn_post_norm;
};

struct SimModel {
  testing::RandomModel file;
  Word embedding = 0, head = 0, output_norm = 0, loop_norm = 0, inject = 0;
  std::vector<LayerTags> layers;  // prelude, shared, coda

  const testing::ModelShape& shape() const { return file.shape; }
  bool injects() const { return shape().injection != "none"; }
};

// Written once a process: with and without prelude and coda, with each way of injecting.
const std::vector<SimModel>& sim_models();

}  // namespace tinyloop::sim
