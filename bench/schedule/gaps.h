// What a running stream notices of a long prompt beside it.
#pragma once

#include <cstdint>

#include "tinyloop/tinyloop.h"

namespace tinyloop::bench {

// Between two tokens of a stream, in microseconds.
struct Intervals {
  double median = 0;
  double most = 0;     // all but one in a hundred are shorter
  double longest = 0;  // of all
};

struct GapFigures {
  Intervals alone;                 // with nobody else there
  Intervals beside;                // while the prompt is computed
  double prompt_tokens_per_s = 0;  // of the prompt, from its submission to its first token
  double prompt_alone_tokens_per_s = 0;
};

// The stream and the prompt run at `loops`; the intervals are those of
// `rounds` prompts, the prompts' speeds medians.
GapFigures measure_gaps(const Model& model, int32_t prompt, int32_t loops, int32_t rounds);

}  // namespace tinyloop::bench
