// What a model's operator watches: counts, sizes and distributions since the load, and the same as
// text that Prometheus reads.
//
//   std::string page = tinyloop::prometheus_text(model.metrics());
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tinyloop/detail/export.h"
#include "tinyloop/reports.h"

namespace tinyloop {

// How often values fell where. counts[i]: above bounds[i - 1] and at most bounds[i]; the last
// entry, one more than there are bounds: above them all.
struct Histogram {
  std::vector<double> bounds{};  // rising
  std::vector<uint64_t> counts{};
  double sum = 0;  // of the values

  TINYLOOP_API uint64_t count() const;
  // The value that the part `part`, 0 .. 1, of all values does not exceed, by linear interpolation
  // within its bucket; the last bound for values above it, 0 where there are none.
  TINYLOOP_API double quantile(double part) const;
};

// Requests that were refused, by reason; together Statistics::rejected.
struct Rejections {
  uint64_t invalid = 0;  // invalid_argument, wrong_model, loop_mismatch, handle_lost
  uint64_t overloaded = 0;
  uint64_t out_of_memory = 0;
  uint64_t closed = 0;  // shutdown, model_closed, replica_failed
  uint64_t other = 0;
};

// Cancels by where they reached their requests; the first one of each request counts.
struct Cancels {
  uint64_t queued = 0;    // not begun
  uint64_t prefill = 0;   // begun, without a token so far
  uint64_t decode = 0;    // behind its first token
  uint64_t too_late = 0;  // complete
};

// What a request's pool had of its prompt.
struct PoolLookups {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t tokens_saved = 0;
};

// Of one replica of a model. Taken without a lock that a step could wait for; entries that change
// together may be a few events apart.
struct Metrics {
  std::string model;   // label of all samples: the file's name for itself; may be changed
  size_t replica = 0;  // label of all samples: its number, from 0
  std::string device{};
  double uptime_s = 0;  // since the load

  ReplicaState state = ReplicaState::closed;
  size_t queued = 0;  // accepted, not begun
  size_t active = 0;  // begun, not complete
  Statistics statistics{};
  MemoryReport memory{};
  Rejections rejections{};
  Cancels cancels{};
  PoolLookups pool{};
  uint64_t out_of_memory = 0;  // requests that failed for want of memory
  uint64_t failures = 0;       // internal and device errors

  // Seconds.
  Histogram queue_s{};           // from the submission until the first rows enter a pass
  Histogram first_token_s{};     // from the submission until the first token is sampled
  Histogram token_interval_s{};  // between two tokens of a request
  Histogram request_s{};         // from the submission until the end, of those that had begun
  Histogram step_s{};            // of the replica
  Histogram pass_rows{};         // rows in the shared block, mean of the passes of a step
};

// Prometheus' text format, version 0.0.4 (content type "text/plain; version=0.0.4"), of the
// replicas of one model or of several. Two with the same labels give series with the same name,
// which Prometheus refuses.
TINYLOOP_API std::string prometheus_text(std::span<const Metrics> replicas);

}  // namespace tinyloop
