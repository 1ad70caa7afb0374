// What a pass takes, by a model of weights to read, arithmetic and latency. For the planner, which
// weighs ways to share passes against one another; attention is left out, for its work follows the
// rows, however they are shared.
#pragma once

#include "kernels/pace.h"

namespace tinyloop::engine {

class ModelWeights;

struct PassCost {
  // A stretch of layers: fixed + rows · per_row seconds, nothing for no rows. A sum, where a
  // roofline would take the larger: kernels overlap the two in part only.
  struct Part {
    double fixed = 0;
    double per_row = 0;

    double of(double rows) const { return rows > 0 ? fixed + rows * per_row : 0; }
  };

  Part prelude{};  // and the embedding
  Part block{};    // one iteration
  Part coda{};     // and the head

  // Rows that leave, and others that enter in their place.
  double exchange(double rows) const { return prelude.of(rows) + coda.of(rows); }
};

PassCost pass_cost(const ModelWeights& weights, const kernels::Pace& pace);

}  // namespace tinyloop::engine
