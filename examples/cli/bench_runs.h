// What `tinyloop bench` measures of prefill and decoding: medians over runs that are repeated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_arguments.h"
#include "tinyloop/model.h"

namespace tinyloop::cli {

class BenchReport;

// One kind of run: how many tokens each handles, how long each took, and what all of them together
// launched on a device.
struct Runs {
  int64_t tokens = 0;
  std::vector<double> times_us;  // not empty
  uint64_t launches = 0;
  uint64_t generated = 0;

  double tokens_per_s() const;  // at the median time
  double launches_per_token() const;
};

struct PrefillFigure {
  int32_t loops = 0;
  int32_t prompts = 0;
  int32_t prompt_tokens = 0;
  Runs runs{};
};

struct DecodeFigure {
  int32_t loops = 0;
  int32_t callers = 0;
  int32_t context = 0;
  int32_t gen_tokens = 0;
  std::string sampling{};
  Runs runs{};
};

// Measures all that the plan asks for at one depth and reports each figure as soon as it is there.
void measure_prefill(const Model& model, const BenchPlan& plan, int32_t loops, BenchReport& report);
void measure_decode(const Model& model, const BenchPlan& plan, int32_t loops, BenchReport& report);

}  // namespace tinyloop::cli
