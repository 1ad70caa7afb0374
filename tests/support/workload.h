// Seeded random requests, and what they give alone and in batches: for tests of bit-identity.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/engine_driver.h"

namespace tinyloop::testing {

struct Outcome {
  std::vector<int32_t> tokens;
  std::vector<float> scores;
  uint64_t logits_hash = 0;
  std::string text;
  bool operator==(const Outcome&) const = default;
};

struct Workload {
  // Prompts of 1 … `longest` tokens below `vocab`, up to 12 more of them, at depths of 1 … 8.
  Workload(uint32_t seed, int count, int32_t longest, int32_t vocab);

  std::vector<GenerateRequest> requests;
};

// One request after the other.
std::vector<Outcome> run_alone(EngineDriver& driver, const Workload& work);
// Runs the requests with at most `batch` in progress, arriving at random between passes.
std::vector<Outcome> run_batched(EngineDriver& driver, const Workload& work, size_t batch,
                                 uint32_t seed,
                                 RecordingClient::Logits logits = RecordingClient::Logits::hashed);

}  // namespace tinyloop::testing
