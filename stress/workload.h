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

// How it may be cut short.
enum class Cut : uint8_t { none, cancel, cancel_from_another_thread, deadline, drop };
inline constexpr int kCuts = 5;

struct Job {
  Kind kind = Kind::future;
  Cut cut = Cut::none;
  size_t pattern = 0;  // index of the request and of its reference
  int32_t delay = 0;   // of the cut: turns of a spin, or microseconds of a deadline
  WhenFull when_full = WhenFull::fail;

  bool may_be_cut() const { return cut != Cut::none; }
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
  const ScoreResult& score_reference(const Job& job) const { return scores_[job.pattern]; }

 private:
  static constexpr size_t kPatterns = 48;

  const uint64_t seed_;
  std::vector<GenerateRequest> requests_;
  std::vector<GenerateResult> results_;
  std::vector<ScoreResult> scores_;
};

}  // namespace tinyloop::stress
