// The replica on paper: the planner decides pass after pass for callers that never pause, and the
// model of costs says what each pass takes.
#pragma once

#include <cstdint>

#include "engine/planner.h"

namespace tinyloop::bench {

// Tokens a second of `rows` callers, each of which takes a new depth, uniform on shallowest …
// deepest, after every `tokens` tokens.
double predicted_tokens_per_s(const engine::PlannerPolicy& policy, int32_t rows, int32_t tokens,
                              int32_t shallowest, int32_t deepest);

}  // namespace tinyloop::bench
