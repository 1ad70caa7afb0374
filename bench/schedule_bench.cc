// What sharing passes gives: schedule_bench -m MODEL.gguf [--device D] [--only TABLE]…
//
//   mixed      callers of mixed depths under each schedule, against everybody at the deepest depth
//   arrivals   callers of one depth that come at random times, against the same that come together
//   gaps       the intervals of a running stream while a long prompt is computed
//
// Beside `mixed` stands what the planner's model of costs says (engine/pass_cost.h).
// docs/benchmarks.md explains the tables.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <cstdio>
#include <exception>
#include <future>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "actors/message.h"
#include "actors/model_state.h"
#include "bench/samples.h"
#include "bench/schedule/callers.h"
#include "bench/schedule/gaps.h"
#include "bench/schedule/prediction.h"
#include "tinyloop/tinyloop.h"

namespace tinyloop::bench {
namespace {

struct Settings {
  std::string path;
  ModelOptions options;
  CallersLoad load;
  int32_t rounds = 3;
  int32_t long_prompt = 2048;
  int32_t arriving_tokens = 256;
  std::vector<int32_t> arriving = {64, 4};
  std::set<std::string> only = {"mixed", "arrivals", "gaps"};
};

void add_options(CLI::App& app, Settings& s) {
  const auto add = [&app](const char* name, auto& field, const char* what) {
    return app.add_option(name, field, what)->capture_default_str();
  };
  app.add_option("-m,--model", s.path, "model file (GGUF)")->required();
  add("--device", s.options.device, "auto, cpu or cuda:N");
  add("--threads", s.options.cpu_threads, "CPU threads, 0: one per core");
  add("--prefill-budget", s.options.prefill_budget, "prompt rows a pass may hold");
  add("--only", s.only, "tables, in the order above")->check(CLI::IsMember(s.only))->delimiter(',');
  add("--repeat", s.rounds, "rounds")->check(CLI::Range(1, 100));
  add("--callers", s.load.callers, "mixed: requests at once");
  add("--requests", s.load.requests, "mixed: requests a round");
  add("--tokens", s.load.tokens, "mixed: new tokens a request");
  add("--shallowest", s.load.shallowest, "mixed: least depth");
  add("--deepest", s.load.deepest, "greatest depth, that of arrivals and gaps");
  add("--arriving-tokens", s.arriving_tokens, "arrivals: new tokens a request");
  add("--arriving", s.arriving, "arrivals: callers, a list")->delimiter(',');
  add("--long-prompt", s.long_prompt, "gaps: tokens of the prompt");
}

engine::PassCost cost_of(const Model& model) {
  std::promise<engine::PassCost> cost;
  auto message = std::make_unique<actors::Message>(
      actors::Visit{[&cost](engine::BatchEngine& engine) { cost.set_value(engine.pass_cost()); }});
  if (model.state()->replica().send(message, errc::model_closed)) return {};
  return cost.get_future().get();
}

// A way to run the callers of table `mixed`.
struct Variant {
  std::string name;
  Schedule schedule = Schedule::throughput;
  int32_t hold_passes = 0;
  bool deepest = false;  // everybody at the deepest depth
  Samples tokens_per_s{};
  double predicted = 0;
};

void run_variant(Engine& engine, const Settings& s, Variant& variant, uint32_t round) {
  ModelOptions options = s.options;
  options.schedule = variant.schedule;
  options.hold_passes = variant.hold_passes;
  options.max_sequences = s.load.callers;
  const Model model = engine.load(s.path, options);
  CallersLoad load = s.load;
  load.seed = round + 1;
  if (variant.deepest) load.shallowest = load.deepest;
  variant.tokens_per_s.push_back(callers_tokens_per_s(model, load));
  if (variant.predicted == 0) {
    const engine::PlannerPolicy policy{.rows = options.max_seq_len,
                                       .prefill_budget = options.prefill_budget,
                                       .hold_passes = options.hold_passes,
                                       .schedule = options.schedule,
                                       .cost = cost_of(model)};
    variant.predicted =
        predicted_tokens_per_s(policy, load.callers, load.tokens, load.shallowest, load.deepest);
  }
  model.async_unload(ShutdownMode::drain, boost::asio::use_future).get();
}

void print_mixed(Engine& engine, const Settings& s) {
  const int32_t deepest = s.load.deepest;
  const int32_t hold = ModelOptions{}.hold_passes;
  std::vector<Variant> variants = {
      {"everybody at the deepest", Schedule::throughput, hold, true},
      {"lockstep", Schedule::fixed, deepest - 1},
      {"throughput", Schedule::throughput, hold},
      {"latency", Schedule::latency, hold},
  };
  for (int32_t length = 2; length < deepest; length *= 2) {
    variants.push_back({"cycles of " + std::to_string(length), Schedule::fixed, length - 1});
  }
  for (int32_t round = 0; round < s.rounds; ++round) {
    for (Variant& variant : variants) run_variant(engine, s, variant, uint32_t(round));
  }
  std::printf(
      "\nmixed: %d callers, depths uniform on %d to %d, %d tokens a request\n"
      "| schedule | tokens/s | of the deepest | predicted | of lockstep | predicted |\n"
      "|---|---|---|---|---|---|\n",
      s.load.callers, s.load.shallowest, deepest, s.load.tokens);
  const auto of = [](const Variant& v, const Variant& base) {
    return median(ratios(v.tokens_per_s, base.tokens_per_s));
  };
  for (const Variant& v : variants) {
    std::printf("| %s | %.0f | %.2f | %.2f | %.2f | %.2f |\n", v.name.c_str(),
                median(v.tokens_per_s), of(v, variants[0]), v.predicted / variants[0].predicted,
                of(v, variants[1]), v.predicted / variants[1].predicted);
  }
}

void print_arrivals(Engine& engine, const Settings& s) {
  std::printf(
      "\narrivals: depth %d, %d tokens each\n"
      "| callers | together, tokens/s | at random times | ratio |\n|---|---|---|---|\n",
      s.load.deepest, s.arriving_tokens);
  for (const int32_t callers : s.arriving) {
    ModelOptions options = s.options;
    CallersLoad load = s.load;
    load.callers = callers;
    load.tokens = s.arriving_tokens;
    load.shallowest = load.deepest;
    options.max_sequences = callers;
    options.prefill_budget = std::max(options.prefill_budget, callers * load.prompt);
    const Model model = engine.load(s.path, options);
    Samples together, random;
    for (int32_t round = 0; round <= s.rounds; ++round) {
      load.seed = uint32_t(round + 1);
      const double one = arrivals_tokens_per_s(model, load, 0);
      // Over the time of three tokens.
      const double other = arrivals_tokens_per_s(model, load, 3e6 * callers / one);
      if (round == 0) continue;  // to warm up
      together.push_back(one);
      random.push_back(other);
    }
    std::printf("| %d | %.0f | %.0f | %.3f |\n", callers, median(together), median(random),
                median(ratios(random, together)));
    model.async_unload(ShutdownMode::drain, boost::asio::use_future).get();
  }
}

void print_gaps(Engine& engine, const Settings& s) {
  std::printf(
      "\ngaps: depth %d, a prompt of %d tokens beside one stream; us between two tokens: median, "
      "99 of 100, longest\n"
      "| schedule | budget | alone | beside the prompt | longest, of the median alone | prompt, "
      "tokens/s | without the stream |\n|---|---|---|---|---|---|---|\n",
      s.load.deepest, s.long_prompt);
  for (const Schedule schedule : {Schedule::throughput, Schedule::latency}) {
    ModelOptions options = s.options;
    options.schedule = schedule;
    options.max_seq_len = std::max(options.max_seq_len, 2 * s.long_prompt);
    const Model model = engine.load(s.path, options);
    const GapFigures f = measure_gaps(model, s.long_prompt, s.load.deepest, s.rounds);
    std::printf("| %s | %d | %.0f, %.0f, %.0f | %.0f, %.0f, %.0f | %.2f | %.0f | %.0f |\n",
                to_string(schedule), options.prefill_budget, f.alone.median, f.alone.most,
                f.alone.longest, f.beside.median, f.beside.most, f.beside.longest,
                f.beside.longest / f.alone.median, f.prompt_tokens_per_s,
                f.prompt_alone_tokens_per_s);
    model.async_unload(ShutdownMode::drain, boost::asio::use_future).get();
  }
}

void run(const Settings& s) {
  Engine engine;
  {
    const Model model = engine.load(s.path, s.options);
    const ModelInfo info = model.info();
    const engine::PassCost cost = cost_of(model);
    std::printf(
        "Model: %s, %d + %d · loops + %d layers, width %d\nDevice: %s\n"
        "Model of costs, us: prelude %.1f + %.2f a row, pass %.1f + %.2f, coda and head %.1f + "
        "%.2f\n%d rounds, medians; ratios are taken within a round\n",
        info.name.c_str(), info.prelude_layers, info.shared_layers, info.coda_layers, info.d_model,
        info.device.c_str(), cost.prelude.fixed * 1e6, cost.prelude.per_row * 1e6,
        cost.block.fixed * 1e6, cost.block.per_row * 1e6, cost.coda.fixed * 1e6,
        cost.coda.per_row * 1e6, s.rounds);
  }
  const auto wanted = [&s](const char* name) {
    std::fflush(stdout);
    return s.only.count(name) > 0;
  };
  if (wanted("mixed")) print_mixed(engine, s);
  if (wanted("arrivals")) print_arrivals(engine, s);
  if (wanted("gaps")) print_gaps(engine, s);
}

int main_of(int argc, char** argv) {
  CLI::App app("What sharing passes gives: tables mixed, arrivals, gaps");
  Settings settings;
  add_options(app, settings);
  CLI11_PARSE(app, argc, argv);
  try {
    run(settings);
  } catch (const std::exception& error) {
    std::cerr << "schedule_bench: " << error.what() << '\n';
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace tinyloop::bench

int main(int argc, char** argv) {
  return tinyloop::bench::main_of(argc, argv);
}
