// What the requests of a run came to, checked against what each may come to.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "actors/cancel_counts.h"
#include "stress/pace.h"
#include "stress/workload.h"

namespace tinyloop::stress {

// Any thread.
class Tally {
 public:
  explicit Tally(const Workload& workload) : workload_(workload) {}

  // One completed request each. Results of requests that ran to their end must be equal to the
  // reference to the bit, of those cut short a beginning of it.
  void generated(const Job& job, const error_code& error, const GenerateResult& result);
  void scored(const Job& job, const error_code& error, const ScoreResult& result);
  // A stream that was dropped: how it ended is not known.
  void dropped() { ++dropped_; }

  // Of the requests that are like `job`.
  const Pace& pace(const Job& job) const { return pace_[workload_.is_long(job)]; }

  void problem(const Job& job, const std::string& what);

  // Prints where cancels have landed; a problem for each phase in which fewer than `least` did.
  void check_cancels(const actors::CancelCounts& counts, uint64_t least);
  // Compares with the model's own counters; `total`: requests sent.
  void check_totals(const Statistics& before, const Statistics& after, uint64_t total);

  // Prints the counts and the problems; true if there are none.
  bool report() const;

 private:
  void ended(const Job& job, const error_code& error, FinishReason reason, const Timings& timings);

  const Workload& workload_;
  std::atomic<uint64_t> ok_{0}, cancelled_{0}, deadline_{0}, rejected_{0}, dropped_{0};
  std::array<Pace, 2> pace_;  // of short and of long prompts
  mutable std::mutex mutex_;
  std::vector<std::string> problems_;
};

}  // namespace tinyloop::stress
