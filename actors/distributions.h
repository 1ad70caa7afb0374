// How long things take in a replica, and how many rows share a pass. Its thread counts, any thread
// reads.
#pragma once

#include <chrono>

#include "actors/bucket_counts.h"
#include "engine/batch_engine.h"

namespace tinyloop::actors {

class Distributions {
 public:
  using Duration = std::chrono::steady_clock::duration;

  // Since the submission of a request.
  void count_queue(Duration time) noexcept { queue_.count(seconds(time)); }
  void count_first_token(Duration time) noexcept { first_token_.count(seconds(time)); }
  void count_request(Duration time) noexcept { request_.count(seconds(time)); }
  // Since its last token.
  void count_token(Duration time) noexcept { token_interval_.count(seconds(time)); }
  void count_step(Duration time, const engine::StepOutcome& step) noexcept;

  // Any thread.
  void fill(Metrics& metrics) const;

 private:
  static constexpr double kSeconds[] = {1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05,
                                        0.1,  0.2,  0.5,  1,    2,    5,    10,   20,   50};
  static constexpr double kRows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};

  static double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

  BucketCounts queue_{kSeconds}, first_token_{kSeconds}, token_interval_{kSeconds};
  BucketCounts request_{kSeconds}, step_{kSeconds}, pass_rows_{kRows};
};

}  // namespace tinyloop::actors
