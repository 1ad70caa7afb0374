#include "bench_arguments.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/limits.h"
#include "bench_serving.h"
#include "bench_timing.h"
#include "failure.h"
#include "id_list.h"

namespace tinyloop::cli {

namespace {

constexpr int32_t kMaxCallers = base::kMaxSequences - 1;  // one is the opener
constexpr int32_t kMaxLength = base::kMaxSeqLen / 2 - 1;
constexpr size_t kAnyBytes = size_t{1} << 60;

void check_range(const char* field, int32_t value, int32_t low, int32_t high) {
  if (value >= low && value <= high) return;
  refuse(field, std::to_string(value), std::to_string(low) + " to " + std::to_string(high));
}

// A lone 0 asks for nothing: the list is empty.
std::vector<int32_t> parse_lengths(const std::string& field, const std::string& text) {
  if (text == "0") return {};
  return parse_ids(field, text, 1, kMaxLength);
}

std::vector<double> parse_rates(const std::string& text) {
  std::vector<double> rates;
  std::istringstream stream(text);
  for (std::string entry; std::getline(stream, entry, ',');) {
    double rate = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), rate);
    if (error != std::errc() || end != entry.data() + entry.size() || !(rate >= 1e-3) ||
        !(rate <= 1e6)) {
      refuse("--rate[" + std::to_string(rates.size()) + "]", "'" + entry + "'", "0.001 to 1000000");
    }
    rates.push_back(rate);
  }
  return rates;
}

std::vector<Sampling> samplings_of(const BenchArguments& arguments, const CLI::App& app) {
  if (arguments.samplings.empty()) return {{sampling_given(app), {arguments.sampling}}};
  std::vector<Sampling> samplings;
  for (const std::string& text : arguments.samplings) {
    samplings.push_back(parse_sampling(text, arguments.sampling));
  }
  return samplings;
}

int32_t longest(const std::vector<int32_t>& lengths) {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

void fit_serving(const BenchPlan& plan, const BenchArguments& arguments, ModelOptions& options) {
  options.max_sequences = arguments.max_sequences;
  options.max_queued = std::max(options.max_queued, plan.requests);
  options.max_seq_len =
      std::max(options.max_seq_len, longest(plan.prompt_tokens) + longest(plan.gen_tokens));
}

// Decoding needs the rows of all callers and the opener in one pass: with fewer, some of them would
// begin while others decode.
void fit_runs(const BenchPlan& plan, ModelOptions& options) {
  const int32_t callers = longest(plan.callers);
  options.max_sequences = 1 + callers;
  options.max_handles = std::max(options.max_handles, callers);
  options.max_seq_len = std::max(options.max_seq_len, longest(plan.prompt_tokens) + 1);
  if (plan.gen_tokens.empty()) return;
  options.prefill_budget = std::max(options.prefill_budget, callers + kOpenerTokens);
  options.max_seq_len = std::max({options.max_seq_len, options.prefill_budget,
                                  longest(plan.contexts) + longest(plan.gen_tokens) + 1});
}

}  // namespace

void BenchArguments::add_to(CLI::App& app) {
  const auto add = [&app](const char* name, auto& field, const char* what) {
    return app.add_option(name, field, what)->capture_default_str();
  };
  model.add_all(app);
  add("--prefill-budget", model.options.prefill_budget,
      "prompt rows a pass may hold; raised to callers + 128 for decoding");
  add("--prompt-tokens", prompt_tokens, "prompt lengths of prefill: a list, 0: none");
  add("--gen-tokens", gen_tokens, "new tokens timed in decoding: a list, 0: none");
  add("--contexts", contexts, "positions before the tokens decoded: a list");
  add("--callers", callers, "requests at the same time: a list");
  app.add_option("--loops", loops, "depths: a list; default: the file's");
  add("--repeat", repeat, "runs of each kind after one to warm up; medians are reported");
  add_sampling(app, sampling);
  app.add_option("--sampling", samplings,
                 "greedy, or sampling options over those of the line: temperature=0.8,top-k=40; "
                 "joined by '+': callers take turns. May be repeated")
      ->allow_extra_args(false);
  app.add_option("--rate", rates,
                 "measure serving instead: requests a second, at random times: a list; prompts and "
                 "outputs are as long as --prompt-tokens and --gen-tokens name, drawn for each");
  add("--requests", requests, "serving: how many requests");
  add("--max-sequences", max_sequences, "serving: requests in progress at once");
  app.add_flag("--json", json, "print JSON, one line for each figure, with the time of every run");
}

BenchPlan plan_of(const BenchArguments& arguments, const CLI::App& app) {
  BenchPlan plan;
  plan.prompt_tokens = parse_lengths("--prompt-tokens", arguments.prompt_tokens);
  plan.gen_tokens = parse_lengths("--gen-tokens", arguments.gen_tokens);
  plan.contexts = parse_ids("--contexts", arguments.contexts, 1, kMaxLength);
  plan.callers = parse_ids("--callers", arguments.callers, 1, kMaxCallers);
  plan.rates = parse_rates(arguments.rates);
  plan.samplings = samplings_of(arguments, app);
  plan.requests = arguments.requests;
  plan.repeat = arguments.repeat;
  check_range("--repeat", plan.repeat, 1, 1000);
  check_range("--requests", plan.requests, kLeastRequests, base::kMaxQueued);
  check_range("--max-sequences", arguments.max_sequences, 1, base::kMaxSequences);
  const bool prompts = !plan.prompt_tokens.empty(), outputs = !plan.gen_tokens.empty();
  if (plan.rates.empty() && !prompts && !outputs) {
    refuse("--gen-tokens", "0 and --prompt-tokens: 0", "at most one of them 0");
  }
  if (!plan.rates.empty() && !(prompts && outputs)) {
    refuse(prompts ? "--gen-tokens" : "--prompt-tokens", "0", "1 or more with --rate");
  }
  return plan;
}

void fit_options(const BenchPlan& plan, const BenchArguments& arguments, ModelOptions& options) {
  if (plan.rates.empty()) {
    fit_runs(plan, options);
  } else {
    fit_serving(plan, arguments, options);
  }
  options.cache_budget_bytes = kAnyBytes;
  options.reserve_tokens = base::kMaxSeqLen;
}

}  // namespace tinyloop::cli
