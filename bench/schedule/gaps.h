// What a running stream notices of a long prompt beside it.
#pragma once

#include <cstdint>

#include "tinyloop/tinyloop.h"

namespace tinyloop::bench {

struct GapFigures {
  double usual_us = 0;             // median interval between two tokens with nobody else there
  double typical_us = 0;           // median interval while the prompt is computed
  double longest_us = 0;           // while the prompt is computed
  double prompt_tokens_per_s = 0;  // of the prompt, from its submission to its first token
  double alone_tokens_per_s = 0;   // the same without the stream
};

// The stream and the prompt run at `loops`; of `rounds` prompts the medians, and the longest
// interval of all.
GapFigures measure_gaps(const Model& model, int32_t prompt, int32_t loops, int32_t rounds);

}  // namespace tinyloop::bench
