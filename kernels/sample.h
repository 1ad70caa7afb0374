// The choice of the next token from each row of logits, and log-probabilities. Rows of all kinds go
// together; each gives what it would give alone.
//
//   adjust       x = z + bias for tokens that have one; −inf for tokens that the mask leaves out;
//                then repetition, presence and frequency penalties. What is finite stays finite,
//                and a logit of −inf is never chosen
//   order        x descending, token id ascending; temperature 0 takes the first
//   scale        s = (x − x_max) / temperature
//   top_k        the first k of the order
//   top_p        of these, the shortest beginning whose share of Σ e^s is at least p
//   min_p        those with s >= ln p
//   draw         the greatest s + Gumbel noise keyed by (seed, position, token); the smallest id
//                among equals. As likely as e^s is in its sum. Source: Gumbel, "Statistical theory
//                of extreme values and some practical applications", 1954; Maddison, Tarlow, Minka,
//                "A* sampling", 2014
//   logprob      z − z_max − ln Σ e^(z − z_max), of the logits as they came
//
// The operations behind it are those of kernels/sampling_math.h, and sums are sums of integers: the
// same logits, seed and position give the same token and the same bits of log-probabilities on
// every device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/limits.h"

namespace tinyloop::kernels {

class CpuContext;
class CudaContext;

// In place of a token: where a row has a NaN or +inf, or all of it is −inf, so that no choice has a
// meaning; and where there is a finite logit, and the mask has left none.
inline constexpr int32_t kNoToken = -1;
inline constexpr int32_t kAllMasked = -2;

// Log-probabilities beside the chosen token's.
inline constexpr int32_t kMostCandidates = base::kMaxLogprobs;

struct LogitBias {
  int32_t token;
  float bias;  // finite
};

struct ScoredToken {
  int32_t token;
  float logprob;
};

// How one row's token is chosen. Values are within the bounds of tinyloop/generate.h; pointers are
// device memory, `counts` may be written.
struct SampleTerms {
  uint64_t seed = 0;
  uint64_t position = 0;              // of the token to be chosen
  const uint32_t* mask = nullptr;     // [mask_words(vocab)]: bit t % 32 of word t / 32 allows t
  uint32_t* counts = nullptr;         // [vocab] (kernels/count_tokens.h); what is chosen is counted
  const LogitBias* biases = nullptr;  // [bias_count], of different tokens
  int32_t bias_count = 0;
  int32_t target = kNoToken;  // >= 0: nothing is chosen, and this token's logprob is wanted
  int32_t candidates = -1;    // so many of the most likely tokens, and all logprobs; -1: none
  int32_t top_k = 0;
  float temperature = 0.0f;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;

  constexpr bool adjusts() const { return mask || counts || bias_count > 0; }
  constexpr bool wants_logprobs() const { return candidates >= 0 || target >= 0; }
};

constexpr size_t mask_words(int32_t vocab) {
  return (size_t(vocab) + 31) / 32;
}

struct SampleArgs {
  const float* logits = nullptr;  // [rows, vocab], dense
  int32_t rows = 0;
  int32_t vocab = 0;                   // 1 … kMostVocab
  const SampleTerms* terms = nullptr;  // [rows]
  float* adjusted = nullptr;           // [rows, vocab] to work in, where a row adjusts
  // Memory that the host reads, too (DeviceMemory::share).
  ScoredToken* chosen = nullptr;      // [rows]; logprob where wanted, else 0
  ScoredToken* candidates = nullptr;  // [rows, kMostCandidates], best first; unused ones unchanged
};

// One row on the host. `adjusted` [vocab], null where nothing adjusts; `candidates`: where those
// wanted find room.
ScoredToken sample_row(std::span<const float> logits, const SampleTerms& terms, float* adjusted,
                       ScoredToken* candidates);

void sample_cpu(CpuContext& cpu, const SampleArgs& args);
void sample_cuda(CudaContext& cuda, const SampleArgs& args);

}  // namespace tinyloop::kernels
