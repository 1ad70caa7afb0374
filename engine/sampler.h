// Chooses the next token from one row of logits. A function of its arguments alone: no state is
// carried from one call to the next, only work space.
//
//   penalty      z > 0 ? z / p : z · p for each token of the history, rounded to float. Source:
//                Keskar et al., "CTRL: a conditional transformer language model", 2019, section 4.1
//   order        z descending, token id ascending; temperature 0 takes the first
//   temperature  w = exp((z - z_max) / T), in double
//   top_k        the first k
//   top_p        the shortest beginning whose share of the sum of w is at least p
//   min_p        those with w >= min_p · w_max
//   draw         u in [0, 1) from Philox (seed, sampling, position); the first token at which the
//                running sum of w exceeds u · (sum of w)
// All sums run in the order above, in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/penalty_history.h"
#include "tinyloop/generate.h"

namespace tinyloop::engine {

// Whether the choice is the first of the order with the logits as they are: then it needs no
// sampler, and can be made where the logits lie.
inline bool takes_most_likely(const GenerateConfig& config) {
  return config.temperature == 0.0f && config.repetition_penalty == 1.0f;
}

class Sampler {
 public:
  // Allocates all work space for rows of `vocab` >= 1 logits. One sampler per thread.
  explicit Sampler(size_t vocab);

  // `logits` [vocab]; -inf marks a token that can not be chosen. `config` is within its documented
  // bounds. `position`: that of the token to be chosen. nullopt: the row has a NaN or +inf, or all
  // of it is -inf, so that no choice has a meaning.
  std::optional<int32_t> sample(std::span<const float> logits, const GenerateConfig& config,
                                const PenaltyHistory& history, uint64_t position);

 private:
  struct Candidate {
    uint32_t key;  // ascending in descending order of the penalised logit
    int32_t id;
  };

  bool collect(std::span<const float> logits, float penalty, const PenaltyHistory& history);
  void order(size_t top_k);
  void radix_sort();
  void weigh(float temperature);
  size_t kept_by_top_p(float top_p) const;
  size_t kept_by_min_p(float min_p, size_t count) const;
  size_t draw(double u, size_t count) const;

  size_t vocab_;
  std::vector<Candidate> candidates_, scratch_;  // candidates_: those still in the choice
  std::vector<double> weights_;
};

}  // namespace tinyloop::engine
