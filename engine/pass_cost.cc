#include "engine/pass_cost.h"

#include <initializer_list>

#include "engine/model_weights.h"

namespace tinyloop::engine {

namespace {

// What a stretch of layers reads and computes.
struct Work {
  double bytes = 0;
  double multiply_adds = 0;  // a row
  double layers = 0;

  void add(const kernels::WeightMatrix& matrix) {
    if (!matrix) return;
    bytes += double(matrix.row_bytes()) * matrix.rows;
    multiply_adds += double(matrix.cols) * matrix.rows;
  }
  void add(const std::vector<LayerWeights>& some) {
    for (const LayerWeights& l : some) {
      for (const auto& matrix : {l.q, l.k, l.v, l.o, l.gate, l.up, l.down}) add(matrix);
      ++layers;
    }
  }
};

PassCost::Part cost_of(const Work& work, const kernels::Pace& pace) {
  return {work.bytes / pace.weight_bytes_per_s + work.layers * pace.s_per_layer,
          work.multiply_adds / pace.multiply_adds_per_s};
}

}  // namespace

PassCost pass_cost(const ModelWeights& weights, const kernels::Pace& pace) {
  Work prelude, block, coda;
  prelude.add(weights.prelude);
  block.add(weights.shared);
  block.add(weights.inject);
  coda.add(weights.coda);
  coda.add(weights.head);
  PassCost cost{cost_of(prelude, pace), cost_of(block, pace), cost_of(coda, pace)};
  cost.coda.fixed += pace.s_per_exit;
  return cost;
}

}  // namespace tinyloop::engine
