// Writes down what happens in a replica (tinyloop/trace.h): its own events here, those of requests
// by way of Operation (actors/operation_trace.cc). A few stores an event; nothing is formatted,
// locked or allocated.
#pragma once

#include "actors/clock.h"
#include "actors/trace_ring.h"
#include "engine/batch_engine.h"
#include "engine/pass_observer.h"

namespace tinyloop::actors {

// On the replica's thread, from the load to the end.
class Tracer final : public engine::PassObserver {
 public:
  // `capacity` events. Throws std::bad_alloc. The clock must outlive it.
  Tracer(size_t capacity, const Clock& clock) : clock_(clock), ring_(capacity) {}

  void add(const TraceEvent& event) noexcept { ring_.add(event); }
  // A step that ran passes; the others are nothing to see.
  void add_step(TimePoint begin, TimePoint end, const engine::StepOutcome& outcome) noexcept;
  void add_failure() noexcept;
  // For a request that has no number yet.
  uint64_t next_number() noexcept { return ++numbered_; }

  // engine::PassObserver
  void on_pass_begin() noexcept override { pass_begin_ = clock_.now(); }
  void on_pass_end(const engine::PassWork& work) noexcept override;

  // The latest pass that has ended: for the chunks in it.
  uint64_t pass() const noexcept { return pass_; }
  TimePoint pass_begin() const noexcept { return pass_begin_; }
  TimePoint pass_end() const noexcept { return pass_end_; }

  // Into room for all events that there may be (TraceRing::copy_to).
  void read(Trace& trace) const noexcept;

  // As traces have it.
  static int64_t microseconds(TimePoint time) noexcept {
    return std::chrono::floor<std::chrono::microseconds>(time.time_since_epoch()).count();
  }

 private:
  const Clock& clock_;
  TraceRing ring_;
  uint64_t numbered_ = 0;
  uint64_t pass_ = 0;
  TimePoint pass_begin_{}, pass_end_{};
};

}  // namespace tinyloop::actors
