// What a request tells its replica's trace. On the replica's thread.
#include "actors/error.h"
#include "actors/inbox.h"
#include "actors/operation.h"
#include "engine/step_plan.h"

namespace tinyloop::actors {

void Operation::trace(TraceEvent event) noexcept {
  Tracer& tracer = *inbox_->tracer;
  if (trace_number_ == 0) trace_number_ = tracer.next_number();
  event.request = trace_number_;
  tracer.add(event);
}

void Operation::trace_phase(TraceKind kind, TimePoint begin, TimePoint end) noexcept {
  if (!inbox_->tracer) return;
  trace(
      {.kind = kind, .begin_us = Tracer::microseconds(begin), .end_us = Tracer::microseconds(end)});
}

// Its part of a pass ends with its token, which the pass's others may still wait for.
void Operation::on_pass(const engine::ChunkStep& chunk) noexcept {
  const Tracer& tracer = *inbox_->tracer;
  const bool has_token = first_token_ && *last_event_ >= tracer.pass_begin();
  trace({.kind = TraceKind::chunk,
         .enters = chunk.enters || chunk.restores,
         .leaves = chunk.leaves,
         .begin_us = Tracer::microseconds(tracer.pass_begin()),
         .end_us = Tracer::microseconds(has_token ? *last_event_ : tracer.pass_end()),
         .pass = tracer.pass(),
         .rows = chunk.rows,
         .position = chunk.first_position,
         .iteration = chunk.iteration,
         .depth = chunk.depth});
}

// The phase that it was in ends, too.
void Operation::trace_end() noexcept {
  if (!inbox_ || !inbox_->tracer) return;
  const TimePoint time = now();
  if (!begun_) {
    trace_phase(TraceKind::queue, submitted_, time);
  } else if (!first_token_) {
    trace_phase(TraceKind::prefill, *begun_, time);
  } else {
    trace_phase(TraceKind::decode, *first_token_, time);
  }
  trace({.kind = TraceKind::end,
         .finish_reason = outcome.reason,
         .error = errc_of(outcome.error),
         .begin_us = Tracer::microseconds(time),
         .end_us = Tracer::microseconds(time),
         .depth = loops_,
         .tokens = sampled_,
         .prompt_tokens = int32_t(prompt_tokens_)});
}

}  // namespace tinyloop::actors
