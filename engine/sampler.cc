#include "engine/sampler.h"

#include <utility>

namespace tinyloop::engine {

HeadTerms Sampler::next(std::span<const int32_t> tokens) {
  const GenerateConfig& config = request_.config;
  HeadTerms terms{.sample = {.seed = config.seed,
                             .position = tokens.size(),
                             .counts = counts_.data(),
                             .candidates = config.logprobs.value_or(-1),
                             .top_k = config.top_k,
                             .temperature = config.temperature,
                             .top_p = config.top_p,
                             .min_p = config.min_p,
                             .repetition_penalty = config.repetition_penalty,
                             .presence_penalty = config.presence_penalty,
                             .frequency_penalty = config.frequency_penalty},
                  .biases = request_.biases};
  const size_t prompt = request_.tokens.size();
  if (tokens.size() - prompt < size_t(config.min_tokens)) terms.mask = request_.early_mask;
  if (counts_.data() && !std::exchange(counted_, true)) {
    terms.counted = tokens;
    terms.counted_prompt = int32_t(prompt);
  }
  return terms;
}

}  // namespace tinyloop::engine
