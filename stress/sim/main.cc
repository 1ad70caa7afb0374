// tinyloop_sim: the engine's actors, planner, handles, pools and mailboxes on one thread, in an
// order that a seed decides, over a device whose tokens prove what was computed (docs/testing.md).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "stress/sim/simulation.h"
#include "stress/sim/violation.h"

namespace tinyloop::sim {
namespace {

struct Options {
  uint64_t seeds = 1000;
  uint64_t first = 1;
  size_t steps = 300;
  bool verbose = false;
};

constexpr uint64_t kEnoughSeeds = 1000;  // to have met everything
constexpr int kWatchSeconds = 30;

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--verbose") == 0) {
      options.verbose = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seeds") == 0) {
      options.seeds = value;
    } else if (std::strcmp(argv[i], "--first") == 0) {
      options.first = value;
    } else if (std::strcmp(argv[i], "--steps") == 0) {
      options.steps = size_t(value);
    } else {
      return false;
    }
    ++i;
  }
  return true;
}

int run(const Options& options) {
  catch_crashes();
  set_verbose(options.verbose);
  const auto begin = std::chrono::steady_clock::now();
  Tally tally;
  for (uint64_t seed = options.first; seed < options.first + options.seeds; ++seed) {
    set_seed(seed);
    restart_watch(kWatchSeconds);
    simulate(seed, options.steps, tally);
  }
  restart_watch(0);
  const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
  tally.print();
  std::printf("%.1f s, %.2f ms a seed\n", ms.count() / 1000, ms.count() / double(tally.seeds));
  return tally.seeds < kEnoughSeeds || tally.is_complete() ? 0 : 1;
}

}  // namespace
}  // namespace tinyloop::sim

int main(int argc, char** argv) {
  tinyloop::sim::Options options;
  if (!tinyloop::sim::parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: tinyloop_sim [--seeds N] [--first SEED] [--steps N] [--verbose]\n");
    return 2;
  }
  return tinyloop::sim::run(options);
}
