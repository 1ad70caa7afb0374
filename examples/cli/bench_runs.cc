#include "bench_runs.h"

#include <algorithm>
#include <functional>
#include <span>

#include "bench_report.h"
#include "bench_timing.h"

namespace tinyloop::cli {

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// The first run warms up and is not counted.
Runs repeat(const Model& model, int32_t times, int64_t tokens, const std::function<double()>& run) {
  Runs runs;
  runs.tokens = tokens;
  run();
  const Statistics before = model.statistics();
  for (int32_t i = 0; i < times; ++i) runs.times_us.push_back(run());
  const Statistics after = model.statistics();
  runs.launches = after.device_launches - before.device_launches;
  runs.generated = after.generated_tokens - before.generated_tokens;
  return runs;
}

// All numbers of callers and ways of sampling. Contexts are computed when the first number of
// callers needs them, so that figures of few callers do not wait for those of many.
void measure_context(const Model& model, const BenchPlan& plan, PromptShape shape,
                     BenchReport& report) {
  std::vector<PrefixCache> contexts;
  for (const int32_t callers : plan.callers) {
    shape.prompts = callers;
    add_contexts(model, shape, contexts);
    const std::span own(contexts.data(), size_t(callers));
    for (const int32_t gen : plan.gen_tokens) {
      for (const Sampling& sampling : plan.samplings) {
        const auto run = [&] { return time_decode(model, own, sampling, gen); };
        report.add({.loops = shape.loops,
                    .callers = callers,
                    .context = shape.tokens,
                    .gen_tokens = gen,
                    .sampling = sampling.name,
                    .runs = repeat(model, plan.repeat, int64_t{callers} * gen, run)});
      }
    }
  }
}

}  // namespace

double Runs::tokens_per_s() const {
  return double(tokens) * 1e6 / median(times_us);
}

double Runs::launches_per_token() const {
  return generated == 0 ? 0 : double(launches) / double(generated);
}

void measure_prefill(const Model& model, const BenchPlan& plan, int32_t loops,
                     BenchReport& report) {
  for (const int32_t tokens : plan.prompt_tokens) {
    for (const int32_t prompts : plan.callers) {
      const PromptShape shape = {.prompts = prompts, .tokens = tokens, .loops = loops};
      const auto run = [&] { return time_prefill(model, shape); };
      report.add({.loops = loops,
                  .prompts = prompts,
                  .prompt_tokens = tokens,
                  .runs = repeat(model, plan.repeat, int64_t{prompts} * tokens, run)});
    }
  }
}

void measure_decode(const Model& model, const BenchPlan& plan, int32_t loops, BenchReport& report) {
  if (plan.gen_tokens.empty()) return;
  for (const int32_t context : plan.contexts) {
    measure_context(model, plan, {.prompts = 0, .tokens = context, .loops = loops}, report);
  }
}

}  // namespace tinyloop::cli
