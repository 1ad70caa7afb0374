#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/check.h"

namespace tinyloop::engine {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TokenLogprob logprob_of(std::span<const float> logits, int32_t token, double normaliser) {
  const double logit = logits[static_cast<size_t>(token)];
  return {token, static_cast<float>(logit - normaliser)};
}

void check_token(std::span<const float> logits, int32_t token) {
  TINYLOOP_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
}

// Fills `best` with the first `count` tokens of the order, by insertion: count is small.
void select_top(std::span<const float> logits, size_t count, std::vector<TokenLogprob>& best) {
  const auto logit = [&](const TokenLogprob& entry) {
    return logits[static_cast<size_t>(entry.token)];
  };
  best.clear();
  best.reserve(count);
  for (size_t id = 0; id < logits.size(); ++id) {
    if (best.size() == count) {
      if (count == 0 || logits[id] <= logit(best.back())) continue;
      best.pop_back();
    }
    const auto place = std::find_if(best.begin(), best.end(), [&](const TokenLogprob& entry) {
      return logit(entry) < logits[id];
    });
    best.insert(place, TokenLogprob{static_cast<int32_t>(id), 0.0f});
  }
}

}  // namespace

std::optional<double> log_sum_exp(std::span<const float> logits) {
  float largest = -kInfinity;
  for (const float logit : logits) {
    if (!(logit < kInfinity)) return std::nullopt;  // NaN or +inf
    largest = std::max(largest, logit);
  }
  if (largest == -kInfinity) return std::nullopt;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - double{largest});
  return largest + std::log(sum);
}

std::optional<float> token_logprob(std::span<const float> logits, int32_t token) {
  check_token(logits, token);
  const auto normaliser = log_sum_exp(logits);
  if (!normaliser) return std::nullopt;
  return logprob_of(logits, token, *normaliser).logprob;
}

bool position_logprobs(std::span<const float> logits, int32_t chosen, int32_t top,
                       PositionLogprobs& out) {
  check_token(logits, chosen);
  const auto normaliser = log_sum_exp(logits);
  if (!normaliser) return false;
  out.chosen = logprob_of(logits, chosen, *normaliser);
  select_top(logits, std::min(static_cast<size_t>(std::max(top, 0)), logits.size()), out.top);
  for (TokenLogprob& entry : out.top) entry = logprob_of(logits, entry.token, *normaliser);
  return true;
}

}  // namespace tinyloop::engine
