#include "actors/tracer.h"

namespace tinyloop::actors {

void Tracer::add_step(TimePoint begin, TimePoint end, const engine::StepOutcome& outcome) noexcept {
  if (outcome.passes == 0) return;
  add({.kind = TraceKind::step,
       .begin_us = microseconds(begin),
       .end_us = microseconds(end),
       .pass = pass_ + 1 - uint64_t(outcome.passes),
       .passes = outcome.passes,
       .rows = outcome.block_rows,
       .prompt_rows = outcome.prompt_rows,
       .tokens = outcome.generated_tokens});
}

void Tracer::add_failure() noexcept {
  const int64_t now = microseconds(clock_.now());
  add({.kind = TraceKind::failure, .begin_us = now, .end_us = now});
}

void Tracer::on_pass_end(const engine::PassWork& work) noexcept {
  pass_ = work.pass;
  pass_end_ = clock_.now();
  add({.kind = TraceKind::pass,
       .begin_us = microseconds(pass_begin_),
       .end_us = microseconds(pass_end_),
       .pass = work.pass,
       .rows = work.rows,
       .prompt_rows = work.prompt_rows});
}

void Tracer::read(Trace& trace) const noexcept {
  ring_.copy_to(trace.events);
  trace.lost = ring_.lost();
}

}  // namespace tinyloop::actors
