// Log-probabilities of raw logits, before penalty and temperature: log p(v) = z_v - log Σ exp(z).
// The largest logit is found first; the sum then runs in order of token id, in double.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tinyloop/generate.h"

namespace tinyloop::engine {

// log Σ exp(z) of one row [vocab]. nullopt: the row is empty, has a NaN or +inf, or all of it is
// -inf.
std::optional<double> log_sum_exp(std::span<const float> logits);

// Log-probability of one token, 0 <= token < vocab; nullopt as above.
std::optional<float> token_logprob(std::span<const float> logits, int32_t token);

// The chosen token's log-probability and those of the `top` likeliest tokens (fewer if the
// vocabulary is smaller), by logit descending, then id ascending. Reuses the memory of `out`.
// False, `out` unspecified: where log_sum_exp is nullopt.
bool position_logprobs(std::span<const float> logits, int32_t chosen, int32_t top,
                       PositionLogprobs& out);

}  // namespace tinyloop::engine
