// tinyloop bench: prefill and decode speed by batch size and depth.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>

#include "commands.h"
#include "failure.h"
#include "id_list.h"
#include "model_arguments.h"
#include "output.h"

namespace tinyloop::cli {

namespace {

constexpr int32_t kMaxBatch = 1024;  // ModelOptions::max_sequences

struct BenchArguments {
  ModelArguments model;
  int32_t prompt_tokens = 128;
  int32_t gen_tokens = 64;
  std::string batches = "1,8,32";
  std::string loops;  // empty: the file's default
  int32_t repeat = 3;
  bool json = false;
};

struct Speed {
  double prefill = 0;  // prompt tokens a second
  double decode = 0;   // new tokens a second
};

// The same tokens every time; which ones does not matter to the speed.
std::vector<int32_t> some_tokens(int32_t count, int32_t vocab, int32_t salt) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>((int64_t{i} * 7919 + int64_t{salt} * 104729) % vocab));
  }
  return tokens;
}

// Seconds from the first request sent to the last one complete.
double time_batch(const Model& model, int32_t batch, int32_t loops, int32_t prompt, int32_t gen) {
  std::vector<std::future<GenerateResult>> results;
  GenerateRequest request;
  request.when_full = WhenFull::wait;
  request.config.loops = loops;
  request.config.max_tokens = gen;
  request.config.eos = EosMode::ignore;
  const auto begin = std::chrono::steady_clock::now();
  for (int32_t i = 0; i < batch; ++i) {
    request.tokens = some_tokens(prompt, model.info().vocab, i);
    results.push_back(model.async_generate(request, boost::asio::use_future));
  }
  for (auto& result : results) result.get();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Prefill: whole prompts, one new token each. Decode: prompts of one token.
Speed measure(const Model& model, const BenchArguments& arguments, int32_t batch, int32_t loops) {
  std::vector<double> prefill, decode;
  for (int32_t i = 0; i < arguments.repeat; ++i) {
    prefill.push_back(time_batch(model, batch, loops, arguments.prompt_tokens, 1));
    decode.push_back(time_batch(model, batch, loops, 1, arguments.gen_tokens));
  }
  return {.prefill = double(batch) * arguments.prompt_tokens / median(prefill),
          .decode = double(batch) * arguments.gen_tokens / median(decode)};
}

void check_range(const char* field, int32_t value, int32_t high) {
  if (value >= 1 && value <= high) return;
  refuse(field, std::to_string(value), "1 to " + std::to_string(high));
}

// The results in the order of the table: by depth, then by batch size.
void print_row(const BenchArguments& arguments, int32_t loops, int32_t batch, const Speed& speed,
               Json& results) {
  if (arguments.json) {
    results.push_back({{"loops", loops},
                       {"batch", batch},
                       {"prefill_tokens_per_s", speed.prefill},
                       {"decode_tokens_per_s", speed.decode}});
    return;
  }
  char line[96];
  std::snprintf(line, sizeof line, "%5d %6d %14.1f %14.1f\n", loops, batch, speed.prefill,
                speed.decode);
  write(line);
}

void run_bench(BenchArguments arguments) {
  constexpr int32_t kMaxLength = 1 << 20;
  check_range("--prompt-tokens", arguments.prompt_tokens, kMaxLength - 1);
  check_range("--gen-tokens", arguments.gen_tokens, kMaxLength - 1);
  check_range("--repeat", arguments.repeat, 1000);
  const auto batches = parse_ids("--batch", arguments.batches, 1, kMaxBatch);
  ModelOptions& options = arguments.model.options;
  options.max_seq_len =
      std::max({options.max_seq_len, arguments.prompt_tokens + 1, arguments.gen_tokens + 1});
  options.max_sequences = *std::max_element(batches.begin(), batches.end());

  const LoadedModel model(arguments.model);
  const ModelInfo info = model->info();
  const auto depths = arguments.loops.empty()
                          ? std::vector<int32_t>{info.default_loops}
                          : parse_ids("--loops", arguments.loops, 1, info.max_loops);
  Json results = Json::array();
  if (!arguments.json) {
    write(info.device + ", " + std::to_string(arguments.prompt_tokens) + " prompt tokens, " +
          std::to_string(arguments.gen_tokens) + " new tokens, medians of " +
          std::to_string(arguments.repeat) + "\nloops  batch  prefill tok/s   decode tok/s\n");
  }
  time_batch(*model, 1, depths.front(), arguments.prompt_tokens, 1);  // warms up
  for (const int32_t loops : depths) {
    for (const int32_t batch : batches) {
      print_row(arguments, loops, batch, measure(*model, arguments, batch, loops), results);
    }
  }
  if (!arguments.json) return;
  write_line({{"model", arguments.model.path},
              {"device", info.device},
              {"prompt_tokens", arguments.prompt_tokens},
              {"gen_tokens", arguments.gen_tokens},
              {"repeat", arguments.repeat},
              {"results", results}});
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Prefill and decode speed");
  const auto arguments = std::make_shared<BenchArguments>();
  arguments->model.add_basic(*command);
  const auto add = [command](const char* name, auto& field, const char* what) {
    command->add_option(name, field, what)->capture_default_str();
  };
  add("--prompt-tokens", arguments->prompt_tokens, "prompt length of the prefill runs");
  add("--gen-tokens", arguments->gen_tokens, "new tokens of the decode runs (prompts of 1 token)");
  add("--batch", arguments->batches, "requests at the same time: a list");
  command->add_option("--loops", arguments->loops, "depths: a list; default: the file's");
  add("--repeat", arguments->repeat, "runs of each kind; medians are reported");
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments] { run_bench(*arguments); });
}

}  // namespace tinyloop::cli
