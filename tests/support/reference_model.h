// The model's equations, written down as plainly as possible: whole sequence, no cache, no batch,
// float64. Shares nothing with the engine but the file's tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/random_model.h"

namespace tinyloop::testing {

// Logits [tokens][vocab] at depth `loops`. window: positions attended, the own one included; 0:
// all.
std::vector<std::vector<double>> reference_logits(const RandomModel& model,
                                                  const std::vector<int32_t>& tokens, int32_t loops,
                                                  int32_t window = 0);

}  // namespace tinyloop::testing
