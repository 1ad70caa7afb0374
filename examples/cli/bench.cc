// tinyloop bench: prefill and decode speed by batch size and depth.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>

#include "bench_timing.h"
#include "commands.h"
#include "failure.h"
#include "id_list.h"
#include "model_arguments.h"
#include "output.h"

namespace tinyloop::cli {

namespace {

constexpr int32_t kMaxBatch = 1023;  // ModelOptions::max_sequences, less the opener
constexpr int32_t kMaxLength = 1 << 20;

struct BenchArguments {
  ModelArguments model;
  int32_t prompt_tokens = 128;
  int32_t gen_tokens = 64;
  int32_t decode_prompt = 32;
  std::string batches = "1,8,32";
  std::string loops;  // empty: the file's default
  int32_t repeat = 3;
  bool json = false;
  bool budget_given = false;  // --prefill-budget
};

// One kind of run: how many tokens each handles, how long each took, and what all of them together
// launched on a device. None: it was not asked for.
struct Runs {
  int64_t tokens = 0;
  std::vector<double> times_us;
  uint64_t launches = 0;
  uint64_t generated = 0;

  double tokens_per_s() const;
  double launches_per_token() const;
};

struct Measurement {
  Runs prefill, decode;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double Runs::tokens_per_s() const {
  return times_us.empty() ? 0 : double(tokens) * 1e6 / median(times_us);
}

double Runs::launches_per_token() const {
  return generated == 0 ? 0 : double(launches) / double(generated);
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

Measurement measure(const Model& model, const BenchArguments& arguments, int32_t batch,
                    int32_t loops) {
  const BatchShape prompts = {batch, loops, arguments.prompt_tokens};
  const BatchShape starts = {batch, loops, arguments.decode_prompt};
  const int32_t gen = arguments.gen_tokens;
  Measurement result;
  if (prompts.prompt > 0) {
    result.prefill = repeat(model, arguments.repeat, int64_t{batch} * prompts.prompt,
                            [&] { return time_prefill(model, prompts); });
  }
  if (gen > 0) {
    result.decode = repeat(model, arguments.repeat, int64_t{batch} * gen,
                           [&] { return time_decode(model, starts, gen); });
  }
  return result;
}

void check_range(const char* field, int32_t value, int32_t low, int32_t high) {
  if (value >= low && value <= high) return;
  refuse(field, std::to_string(value), std::to_string(low) + " to " + std::to_string(high));
}

void check(const BenchArguments& arguments) {
  check_range("--prompt-tokens", arguments.prompt_tokens, 0, kMaxLength - 1);
  check_range("--gen-tokens", arguments.gen_tokens, 0, kMaxLength / 2);
  check_range("--decode-prompt", arguments.decode_prompt, 1, kMaxLength / 2 - 1);
  check_range("--repeat", arguments.repeat, 1, 1000);
  if (arguments.prompt_tokens > 0 || arguments.gen_tokens > 0) return;
  refuse("--gen-tokens", "0 and --prompt-tokens: 0", "at most one of them 0");
}

// Raises what the runs need and leaves the rest as it is. Decode runs need room for the opener and
// all prompts in one pass: else the first sequences would decode while others still prefill.
void fit_options(const BenchArguments& arguments, const std::vector<int32_t>& batches,
                 ModelOptions& options) {
  options.max_seq_len = std::max({options.max_seq_len, arguments.prompt_tokens + 1,
                                  arguments.decode_prompt + arguments.gen_tokens + 1});
  const int32_t batch = *std::max_element(batches.begin(), batches.end());
  options.max_sequences = 1 + batch;
  if (arguments.gen_tokens == 0 || arguments.budget_given) return;
  const int64_t rows = int64_t{batch} * arguments.decode_prompt + kOpenerTokens;
  options.prefill_budget = int32_t(std::clamp<int64_t>(rows, options.prefill_budget, kMaxLength));
  options.max_seq_len = std::max(options.max_seq_len, options.prefill_budget);
}

Json times_json(const Runs& runs) {
  return {{"tokens", runs.tokens}, {"times_us", runs.times_us}};
}

Json measurement_json(int32_t loops, int32_t batch, const Measurement& measured) {
  Json row = {{"loops", loops}, {"batch", batch}};
  const auto add = [&row](const std::string& name, const Runs& runs) {
    if (runs.times_us.empty()) return;
    row[name + "_tokens_per_s"] = runs.tokens_per_s();
    row[name] = times_json(runs);
  };
  add("prefill", measured.prefill);
  add("decode", measured.decode);
  if (!measured.decode.times_us.empty()) {
    row["launches_per_token"] = measured.decode.launches_per_token();
  }
  return row;
}

void print_header(const BenchArguments& arguments, const ModelInfo& info) {
  write(info.device + ", medians of " + std::to_string(arguments.repeat) +
        "; prefill: prompts of " + std::to_string(arguments.prompt_tokens) +
        " tokens; decode: " + std::to_string(arguments.gen_tokens) + " tokens after prompts of " +
        std::to_string(arguments.decode_prompt) +
        "\nloops  batch  prefill tok/s   decode tok/s   launches/token\n");
}

void print_row(int32_t loops, int32_t batch, const Measurement& measured) {
  char line[96];
  std::snprintf(line, sizeof line, "%5d %6d %14.1f %14.1f %16.2f\n", loops, batch,
                measured.prefill.tokens_per_s(), measured.decode.tokens_per_s(),
                measured.decode.launches_per_token());
  write(line);
}

void run_bench(BenchArguments arguments) {
  check(arguments);
  const auto batches = parse_ids("--batch", arguments.batches, 1, kMaxBatch);
  fit_options(arguments, batches, arguments.model.options);
  const LoadedModel model(arguments.model);
  const ModelInfo info = model->info();
  const auto depths = arguments.loops.empty()
                          ? std::vector<int32_t>{info.default_loops}
                          : parse_ids("--loops", arguments.loops, 1, info.max_loops);
  Json results = Json::array();
  if (!arguments.json) print_header(arguments, info);
  for (const int32_t loops : depths) {
    for (const int32_t batch : batches) {
      const Measurement measured = measure(*model, arguments, batch, loops);
      if (arguments.json) {
        results.push_back(measurement_json(loops, batch, measured));
      } else {
        print_row(loops, batch, measured);
      }
    }
  }
  if (!arguments.json) return;
  write_line({{"model", arguments.model.path},
              {"device", info.device},
              {"mode", to_string(arguments.model.options.mode)},
              {"prefill_budget", arguments.model.options.prefill_budget},
              {"prompt_tokens", arguments.prompt_tokens},
              {"gen_tokens", arguments.gen_tokens},
              {"decode_prompt", arguments.decode_prompt},
              {"repeat", arguments.repeat},
              {"results", results}});
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Prefill and decode speed");
  const auto arguments = std::make_shared<BenchArguments>();
  arguments->model.add_all(*command);
  const auto add = [command](const char* name, auto& field, const char* what) {
    command->add_option(name, field, what)->capture_default_str();
  };
  add("--prefill-budget", arguments->model.options.prefill_budget,
      "prompt rows a pass may hold; raised to what the decode runs need unless given");
  add("--prompt-tokens", arguments->prompt_tokens, "prompt length of the prefill runs, 0: none");
  add("--gen-tokens", arguments->gen_tokens, "new tokens timed in the decode runs, 0: none");
  add("--decode-prompt", arguments->decode_prompt, "prompt length of the decode runs, not timed");
  add("--batch", arguments->batches, "requests at the same time: a list");
  command->add_option("--loops", arguments->loops, "depths: a list; default: the file's");
  add("--repeat", arguments->repeat,
      "runs of each kind after one to warm up; medians are reported");
  command->add_flag("--json", arguments->json, "print JSON, with the time of every run");
  command->callback([arguments, command] {
    arguments->budget_given = command->count("--prefill-budget") > 0;
    run_bench(*arguments);
  });
}

}  // namespace tinyloop::cli
