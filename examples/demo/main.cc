// The demo: many callers on one replica of a looped model, each with its own opening, depth and
// seed, each reading its tale as it is told; then what that cost, next to one caller alone.
#include <tinyloop/tinyloop.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "openings.h"
#include "report.h"
#include "run.h"

namespace {

struct DemoOptions {
  std::string model = "models/tinyloop-tales-16m-q4_1.gguf";
  int32_t callers = 32;
  int32_t max_tokens = 120;
  int32_t threads = 0;
  uint64_t seed = 1;
  bool plain = false;
};

constexpr int32_t kDepths = 8;      // callers ask for 1 .. 8 loop iterations in turn
constexpr int32_t kAloneDepth = 4;  // of the caller that is measured alone

void add_options(CLI::App& app, DemoOptions& options) {
  app.add_option("--model", options.model, "model file (GGUF)")->capture_default_str();
  app.add_option("--callers", options.callers, "callers at the same time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--max-tokens", options.max_tokens, "length of a tale at most")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "CPU threads, 0: one per core")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the first caller; the others count on")
      ->capture_default_str();
  app.add_flag("--plain", options.plain, "lines instead of a live panel, on a terminal, too");
}

std::vector<tinyloop::GenerateRequest> make_requests(const DemoOptions& options,
                                                     int32_t max_loops) {
  std::vector<tinyloop::GenerateRequest> requests(size_t(options.callers));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].text = demo::opening(i);
    requests[i].when_full = tinyloop::WhenFull::wait;
    requests[i].config.loops = int32_t(i) % std::min(kDepths, max_loops) + 1;
    requests[i].config.max_tokens = options.max_tokens;
    requests[i].config.temperature = 0.8f;
    requests[i].config.seed = options.seed + i;
  }
  return requests;
}

bool check(bool good, const std::string& claim) {
  std::cout << (good ? "  yes  " : "  NO   ") << claim << '\n';
  return good;
}

// The claims the demo makes; false if one of them does not hold.
bool check_run(const tinyloop::Model& model, const demo::Run& alone, const demo::Run& together,
               size_t alone_caller) {
  std::cout << "\nchecks\n";
  const auto& tales = together.result.tales;
  const auto ended = [](const demo::Tale& tale) { return tale.well_ended(); };
  bool good = check(std::all_of(tales.begin(), tales.end(), ended), "every tale came to its end");
  const auto& tokens = alone.result.tales[0].tokens;
  good &= check(!tokens.empty() && tokens == tales[alone_caller].tokens,
                "caller " + std::to_string(alone_caller + 1) + " alone and among " +
                    std::to_string(tales.size()) + ": the same " + std::to_string(tokens.size()) +
                    " tokens");
  const tinyloop::MemoryReport memory = model.memory();
  good &= check(memory.pages_used == 0 && memory.cache_reserved == 0,
                "no K/V page and no reservation is left");
  model.async_unload(tinyloop::ShutdownMode::drain, boost::asio::use_future).get();
  const size_t left = model.memory().total();
  good &= check(left == 0, std::to_string(left) + " bytes are left after unloading");
  return good;
}

void print_model(const tinyloop::ModelInfo& info) {
  std::cout << info.name << " on " << info.device << ": " << info.prelude_layers << " prelude / "
            << info.shared_layers << " shared / " << info.coda_layers << " coda layers, up to "
            << info.max_loops << " loops\n";
}

int run_demo(const DemoOptions& options) {
  tinyloop::ModelOptions model_options;
  model_options.cpu_threads = options.threads;
  model_options.max_sequences = options.callers;
  tinyloop::Engine engine;
  const tinyloop::Model model = engine.load(options.model, model_options);
  const tinyloop::ModelInfo info = model.info();
  print_model(info);

  const auto requests = make_requests(options, info.max_loops);
  const size_t alone_caller =
      std::min(size_t(std::min(kAloneDepth, info.max_loops)), requests.size()) - 1;
  std::cout << "first, caller " << alone_caller + 1 << " alone …" << std::endl;
  const demo::Run alone = demo::run_callers(model, {requests[alone_caller]}, nullptr);
  const auto display = demo::make_display(options.plain);
  const demo::Run together = demo::run_callers(model, requests, display.get());

  demo::print_tales(together.result);
  demo::print_comparison(alone, together);
  demo::print_memory(together.memory);
  return check_run(model, alone, together, alone_caller) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  DemoOptions options;
  CLI::App app("Many callers on one replica of a looped model", "tinyloop_demo");
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return run_demo(options);
  } catch (const std::exception& error) {
    std::cerr << "tinyloop_demo: " << error.what() << '\n';
    return 1;
  }
}
