// What `tinyloop bench` measures of serving: requests that come at random times, whoever is served.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_arguments.h"
#include "tinyloop/model.h"

namespace tinyloop::cli {

class BenchReport;

inline constexpr int32_t kLeastRequests = 5;  // that three fifths of them are some

// In microseconds: half of them, and 99 of 100, are no longer.
struct Quantiles {
  double p50 = 0;
  double p99 = 0;
};

// Of a Poisson process of `rate` requests a second, which does not wait for answers. The first
// fifth of the requests fills the replica and the last fifth keeps it full: both are left out.
struct ServingFigure {
  int32_t loops = 0;
  double rate = 0;
  int32_t requests = 0;
  std::string sampling{};
  double asked_per_s = 0;   // new tokens of the requests counted, over the time in which they came
  double tokens_per_s = 0;  // new tokens that came in that time, of whomever
  Quantiles first_token_us{};  // from the time at which a request was due to its first token
  // Between two pieces of a stream: a piece is a token, or several when its reader was late.
  Quantiles interval_us{};
};

// Measures every rate and way of sampling at one depth and reports each figure at once.
void measure_serving(const Model& model, const BenchPlan& plan, int32_t loops, BenchReport& report);

}  // namespace tinyloop::cli
