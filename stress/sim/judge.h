// Whether an operation may end as it has.
#pragma once

#include <span>

#include "stress/sim/op.h"

namespace tinyloop::sim {

// What else is so, besides what the operation knows.
struct Circumstances {
  TimePoint now{};
  bool engine_closed = false;  // or being closed
  bool engine_cancels = false;
};

const char* name_of(errc condition);

// Whether there were too many messages that are not requests: that may always be.
bool is_crowded_out(const error_code& error);
// A violation unless docs/errors.md has a reason for the error.
void judge_error(const Op& op, const error_code& error, const Circumstances& at);
// The tokens behind the prompt: those that the reference gives, all of them or the first ones.
void judge_tokens(const Op& op, std::span<const int32_t> tokens);
// The same for a request that has ended without an error: it may have ended so, and so late.
void judge_end(const Op& op, std::span<const int32_t> tokens, FinishReason reason, int32_t loops,
               const Timings& timings, const Circumstances& at);
void judge_scores(const Op& op, const ScoreResult& result, const Circumstances& at);
// The most K/V budget that a request takes; exact where it neither begins with a prefix nor keeps
// one.
size_t most_needed(const Op& op);
// Events stand in the order in which they end, save chunks, and nothing follows a request's end.
void judge_trace(const Op& op, const Trace& trace);
// What a build gives.
void judge_handle(const Op& op, const ReuseHandle& handle);

[[noreturn]] void fail(const Op& op, const std::string& what);

}  // namespace tinyloop::sim
