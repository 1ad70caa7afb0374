// What a replica did, event by event: how long each request waited, prefilled and decoded, the
// passes it was in with the iterations that its rows ran, and the replica's steps around them.
//
//   options.trace_events = 65536;  // ModelOptions
//   ...
//   model.async_trace(0, [](tinyloop::error_code error, tinyloop::Trace trace) {
//     if (!error) std::ofstream("trace.json") << tinyloop::chrome_trace_json(trace);
//   });
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tinyloop/detail/export.h"
#include "tinyloop/errc.h"
#include "tinyloop/generate.h"

namespace tinyloop {

// Of the replica: step, pass, failure. Of one request, the others: queue, prefill and decode follow
// each other without a gap; chunks lie within prefill and decode, one after another.
enum class TraceKind : uint8_t {
  step,     // of the replica, with all of its passes
  pass,     // of the shared block, within a step. On a GPU a step may have several, and the host
            // does not know when each one ran: their times are those of their preparation, and of
            // waiting for the device in the step's last one. The step's own times hold
  failure,  // the replica failed; no length
  queue,    // from the submission until the first rows enter a pass, or the end before that
  prefill,  // until the first token is sampled, or the end before that
  decode,   // from the first token until the end
  chunk,    // a request's rows in a pass: from the pass's begin until their token is sampled, or
            // the pass's end
  end,      // the outcome is handed out; no length
};

TINYLOOP_API const char* to_string(TraceKind kind) noexcept;  // "step", "pass", …; static storage

// What a field is to an event depends on its kind; to others it is 0.
struct TraceEvent {
  TraceKind kind = TraceKind::step;
  bool enters = false;  // chunk: ran embedding and prelude in this pass, or came out of a handle
  bool leaves = false;  // chunk: this was its last pass
  FinishReason finish_reason = FinishReason::max_tokens;  // end, where `error` is ok
  errc error = errc::ok;                                  // end
  // Numbers requests of this replica from 1, in the order in which they first appear; 0: its own.
  uint64_t request = 0;
  // Microseconds of the engine's clock (std::chrono::steady_clock), rounded down: traces of one
  // process share their time.
  int64_t begin_us = 0;
  int64_t end_us = 0;
  uint64_t pass = 0;        // chunk, pass: passes count from 0; step: its first one
  int32_t passes = 0;       // step
  int32_t rows = 0;         // pass, step: that went through the shared block; chunk: all of it
  int32_t prompt_rows = 0;  // pass, step: that entered as prompt
  int32_t position = 0;     // chunk: of its first row
  int32_t iteration = 0;    // chunk: the loop iteration it ran in this pass, from 0; -1: it waited
  int32_t depth = 0;        // chunk: iterations in all; end: GenerateConfig::loops
  int32_t tokens = 0;       // step, end: sampled
  int32_t prompt_tokens = 0;  // end: of the request; behind a handle all of them
};

// Events are written when they end, chunks at the end of their pass, and stand in that order: of a
// request that is under way there are those that lie behind it.
struct Trace {
  std::string model{};   // the file's name for itself
  std::string device{};  // ModelInfo::device
  std::vector<TraceEvent> events{};
  uint64_t lost = 0;  // older ones, overwritten since the load
};

// The trace as Chrome's JSON ("traceEvents"), for Perfetto (ui.perfetto.dev) and chrome://tracing:
// one track for the replica, one for each request. Any thread; takes about a microsecond and 190
// bytes an event. Throws std::bad_alloc alone. Bytes of names that are not UTF-8 become U+FFFD.
TINYLOOP_API std::string chrome_trace_json(const Trace& trace);

}  // namespace tinyloop
