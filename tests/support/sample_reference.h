// The choice of a token by its definition (kernels/sample.h), step by step with a full sort.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sample.h"

namespace tinyloop::testing {

// A row's terms with what its pointers stand for.
struct SampleCase {
  kernels::SampleTerms terms{};  // without pointers
  std::vector<uint32_t> mask{}, counts{};
  std::vector<kernels::LogitBias> biases{};
};

struct SampleOutcome {
  int32_t token = 0;
  uint32_t logprob = 0;  // bits
  std::vector<std::pair<int32_t, uint32_t>> candidates{};
  std::vector<uint32_t> counts{};  // afterwards

  bool operator==(const SampleOutcome&) const = default;
};

SampleOutcome expected_sample(const std::vector<float>& logits, const SampleCase& row);

}  // namespace tinyloop::testing
