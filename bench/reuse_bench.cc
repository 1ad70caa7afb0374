// What reuse gives: reuse_bench -m MODEL.gguf [--device D] [--mode M] [--only TABLE]…
//
//   first-token   time to the first token behind a cached prefix, in decode tokens
//   resume        a prompt carried on from a smaller depth, against the same computed anew
//   pool          prompts of which a part is in a pool, against the same without it
//   memory        pages of many generations that share a prefix
//
// Everything goes through the public interface, as any caller's requests would. Compared variants
// run in turns; figures are medians, with the least and the greatest of all rounds in brackets.
// Ratios are taken within a round. docs/benchmarks.md explains them.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "bench/calls.h"
#include "bench/reuse/tables.h"
#include "tinyloop/tinyloop.h"

namespace tinyloop::bench {
namespace {

struct Settings {
  std::string path;
  ModelOptions options;
  int32_t loops = 0;  // 0: the file's default; not of `resume`
  int32_t rounds = 11;
  Clock clock = Clock::wall;
  std::set<std::string> only = {"first-token", "resume", "pool", "memory"};
  FirstTokenSettings first_token;
  ResumeSettings resume;
  PoolSettings pool;
  MemorySettings memory;
};

void add_model_options(CLI::App& app, Settings& s) {
  const auto add = [&app](const char* name, auto& field, const char* what) {
    return app.add_option(name, field, what)->capture_default_str();
  };
  static const std::map<std::string, ArithmeticMode> kModes = {{"auto", ArithmeticMode::automatic},
                                                               {"int8", ArithmeticMode::int8},
                                                               {"f32", ArithmeticMode::f32},
                                                               {"f16", ArithmeticMode::f16},
                                                               {"fast", ArithmeticMode::fast}};
  app.add_option("-m,--model", s.path, "model file (GGUF)")->required();
  add("--device", s.options.device, "auto, cpu or cuda:N");
  add("--threads", s.options.cpu_threads, "CPU threads, 0: one per core");
  app.add_option("--mode", s.options.mode, "arithmetic; default: auto")
      ->transform(CLI::CheckedTransformer(kModes));
  add("--prefill-budget", s.options.prefill_budget, "prompt rows a pass may hold");
}

void add_table_options(CLI::App& app, Settings& s) {
  const CLI::Range lengths(1, 1 << 20), depths(1, 64);
  const auto add = [&app](const char* name, auto& field, const auto& check, const char* what) {
    return app.add_option(name, field, what)->check(check)->capture_default_str();
  };
  add("--only", s.only, CLI::IsMember(s.only), "tables, in the order above")->delimiter(',');
  add("--repeat", s.rounds, CLI::Range(1, 1000), "rounds after one to warm up");
  static const std::map<std::string, Clock> kClocks = {{"wall", Clock::wall}, {"cpu", Clock::cpu}};
  app.add_option("--clock", s.clock, "wall, or cpu: the process's CPU time; default: wall")
      ->transform(CLI::CheckedTransformer(kClocks));
  app.add_option("--loops", s.loops, "depth, save of `resume`; default: the file's")->check(depths);
  add("--prefix-tokens", s.first_token.prefix, lengths, "first-token: positions cached");
  add("--prompt-tokens", s.pool.prompt, lengths, "resume and pool: prompt length");
  add("--from", s.resume.from, depths, "resume: depth of the handle");
  add("--to", s.resume.to, depths, "resume: depth that it is carried on to");
  add("--tails", s.resume.tails, lengths, "resume: new tokens, a list")->delimiter(',');
  add("--shares", s.pool.shares, CLI::Range(0.0, 1.0), "pool: parts registered, a list")
      ->delimiter(',');
  app.add_option("--layer-macs", s.pool.layer_macs,
                 "pool: multiply-adds of one layer's matrices a position; default: 12 d²")
      ->check(CLI::PositiveNumber);
  add("--generations", s.memory.generations, CLI::Range(1, 1000), "memory: how many at once");
}

// Raises what the tables need and leaves the rest as it is.
void fit(Settings& s) {
  s.resume.prompt = s.pool.prompt;
  s.memory.prefix = s.first_token.prefix;
  s.resume.tails.push_back(1);
  std::sort(s.resume.tails.begin(), s.resume.tails.end());
  const auto last = std::unique(s.resume.tails.begin(), s.resume.tails.end());
  s.resume.tails.erase(last, s.resume.tails.end());
  const int32_t tail = std::max(16, s.resume.tails.back()) + 1;
  const int32_t new_tokens = std::max(s.first_token.decoded, s.memory.decoded) + 2;
  s.options.max_seq_len =
      std::max({s.options.max_seq_len, s.pool.prompt + tail, s.first_token.prefix + new_tokens});
  s.options.max_sequences = std::max(s.options.max_sequences, s.memory.generations);
}

void run(Settings s) {
  fit(s);
  set_clock(s.clock);
  Engine engine;
  const Model model = engine.load(s.path, s.options);
  const ModelInfo info = model.info();
  const int32_t loops = s.loops > 0 ? s.loops : info.default_loops;
  std::printf(
      "Model: %s, %d + %d · loops + %d layers, width %d\nDevice: %s\nMode: %s, prefill budget %d, "
      "%d rounds, %s; medians with (least to greatest)\n",
      info.name.c_str(), info.prelude_layers, info.shared_layers, info.coda_layers, info.d_model,
      info.device.c_str(), to_string(s.options.mode), s.options.prefill_budget, s.rounds,
      s.clock == Clock::wall ? "wall-clock time" : "CPU time of the process");
  const auto wanted = [&s](const char* name) {
    std::fflush(stdout);
    return s.only.count(name) > 0;
  };
  if (wanted("first-token")) print_first_token(model, loops, s.rounds, s.first_token);
  if (wanted("resume")) print_resume(model, s.rounds, s.resume);
  if (wanted("pool")) print_pool(model, loops, s.rounds, s.pool);
  if (wanted("memory")) print_memory(model, loops, s.memory);
}

int main_of(int argc, char** argv) {
  CLI::App app("What reuse gives: tables first-token, resume, pool, memory");
  Settings settings;
  add_model_options(app, settings);
  add_table_options(app, settings);
  CLI11_PARSE(app, argc, argv);
  try {
    run(settings);
  } catch (const std::exception& error) {
    std::cerr << "reuse_bench: " << error.what() << '\n';
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace tinyloop::bench

int main(int argc, char** argv) {
  return tinyloop::bench::main_of(argc, argv);
}
