// tinyloop bench: speed of prefill, of decoding, and of serving requests that come at random.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>

#include "bench_arguments.h"
#include "bench_report.h"
#include "bench_runs.h"
#include "bench_serving.h"
#include "commands.h"
#include "id_list.h"

namespace tinyloop::cli {

namespace {

void run_bench(BenchArguments arguments, const CLI::App& app) {
  const BenchPlan plan = plan_of(arguments, app);
  fit_options(plan, arguments, arguments.model.options);
  const LoadedModel model(arguments.model);
  const ModelInfo info = model->info();
  const auto depths = arguments.loops.empty()
                          ? std::vector<int32_t>{info.default_loops}
                          : parse_ids("--loops", arguments.loops, 1, info.max_loops);
  BenchReport report(arguments, arguments.model.options, info);
  for (const int32_t loops : depths) {
    if (!plan.rates.empty()) {
      measure_serving(*model, plan, loops, report);
      continue;
    }
    measure_prefill(*model, plan, loops, report);
    measure_decode(*model, plan, loops, report);
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Speed of prefill, decoding and serving");
  const auto arguments = std::make_shared<BenchArguments>();
  arguments->add_to(*command);
  command->callback([arguments, command] { run_bench(*arguments, *command); });
}

}  // namespace tinyloop::cli
