// The requests of a run and what each must give: all drawn from one seed, the results taken from a
// serial run before the threads start.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tinyloop/tinyloop.h"

namespace tinyloop::stress {

// How a request is sent.
enum class Kind : uint8_t { future, callback, chunks, stream, coroutine, score };
inline constexpr int kKinds = 6;

// How it may be cut short. `drop`: a stream is destroyed, other kinds run to their end.
enum class Cut : uint8_t { none, cancel, deadline, drop };

// The part of a request's way that its cancel is aimed at. Where it has landed is counted by the
// library (actors/cancel_counts.h). The last two come too late: they must change nothing.
enum class Aim : uint8_t { queued, prefill, decode, completing, done };

struct Job {
  Kind kind = Kind::future;
  Cut cut = Cut::none;
  Aim aim = Aim::queued;
  bool elsewhere = false;  // the cancel comes from another thread, and twice
  size_t pattern = 0;      // index of the request and of its reference
  int32_t delay = 0;       // of the cut: turns of a spin, or microseconds of a deadline
  int32_t reads = 0;       // of a stream, before the cut
  double share = 0;        // of the prefill, before the cut
  WhenFull when_full = WhenFull::fail;

  bool may_be_cancelled() const { return cut == Cut::cancel && aim < Aim::completing; }
};

class Workload {
 public:
  // Draws the patterns and runs each alone. Throws boost::system::system_error.
  Workload(const Model& model, uint64_t seed);

  // The jobs of one thread.
  std::vector<Job> draw(uint64_t thread, size_t count) const;

  GenerateRequest request(const Job& job) const;
  ScoreRequest score_request(const Job& job) const;
  const GenerateResult& reference(const Job& job) const { return results_[job.pattern]; }
  bool is_long(const Job& job) const { return job.pattern >= kPatterns / 2; }
  const ScoreResult& score_reference(const Job& job) const { return scores_[job.pattern]; }

 private:
  // The second half has long prompts and few tokens to generate: most of their way is prefill.
  static constexpr size_t kPatterns = 64;

  const uint64_t seed_;
  std::vector<GenerateRequest> requests_;
  std::vector<GenerateResult> results_;
  std::vector<ScoreResult> scores_;
};

}  // namespace tinyloop::stress
