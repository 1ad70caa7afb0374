// tinyloop_stress: many threads, every way of sending, cancels, deadlines and dropped streams at
// random moments; each request completes once, gives the bits of a serial run, and leaves no byte.
#include <boost/asio/use_future.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "actors/model_state.h"
#include "stress/driver.h"
#include "tests/support/random_model.h"

namespace tinyloop::stress {
namespace {

struct Options {
  uint64_t seed = std::random_device()();
  size_t requests = 2000;
  size_t threads = 16;
  uint64_t min_cancels = 0;  // that must land in each phase
  std::string device = "cpu";
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seed") == 0) {
      options.seed = value;
    } else if (std::strcmp(argv[i], "--requests") == 0) {
      options.requests = size_t(value);
    } else if (std::strcmp(argv[i], "--threads") == 0 && value > 0) {
      options.threads = size_t(value);
    } else if (std::strcmp(argv[i], "--min-cancels") == 0) {
      options.min_cancels = value;
    } else if (std::strcmp(argv[i], "--device") == 0) {
      options.device = argv[i + 1];
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

ModelOptions model_options(const std::string& device) {
  ModelOptions options;
  options.device = device;
  options.max_seq_len = 128;
  options.prefill_budget = 24;
  options.max_sequences = 16;
  options.max_queued = 24;
  options.cpu_threads = 1;
  return options;
}

void send_all(const Model& model, const Workload& workload, Tally& tally, const Options& options) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < options.threads; ++i) {
    const size_t count =
        options.requests / options.threads + (i < options.requests % options.threads ? 1 : 0);
    threads.emplace_back(
        [&, i, count] { Driver(model, workload, tally).run(workload.draw(i, count)); });
  }
  for (auto& thread : threads) thread.join();
}

// Dropped streams may still be on their way out.
void wait_until_idle(const Model& model) {
  const auto busy = [&] {
    const auto replica = model.health().replicas.at(0);
    return replica.queued + replica.active > 0;
  };
  while (busy()) std::this_thread::yield();
}

// What the model holds. Work space is not among it: on a GPU it grows with the batches, and stays.
size_t held(const MemoryReport& report) {
  return report.total() - report.workspace;
}

bool memory_is_back(const Model& model, size_t at_start) {
  model.async_trim(boost::asio::use_future).get();
  const MemoryReport report = model.memory();
  if (held(report) == at_start && report.cache_reserved == 0 && report.pages_used == 0) return true;
  std::printf("PROBLEM: %zu bytes at the start, %zu at the end, %zu reserved, %zu pages in use\n",
              at_start, held(report), report.cache_reserved, report.pages_used);
  return false;
}

bool run(const Options& options) {
  std::printf("seed %llu, %zu requests, %zu threads, %s\n", (unsigned long long)options.seed,
              options.requests, options.threads, options.device.c_str());
  const auto file = testing::write_random_model();
  Engine engine;
  const Model model = engine.load(file.path(), model_options(options.device));
  const Workload workload(model, options.seed);
  model.async_trim(boost::asio::use_future).get();
  const size_t memory = held(model.memory());
  const Statistics before = model.statistics();
  Tally tally(workload);
  send_all(model, workload, tally, options);
  wait_until_idle(model);
  tally.check_cancels(model.state()->replica().inbox()->cancel_counts, options.min_cancels);
  tally.check_totals(before, model.statistics(), options.requests);
  bool good = memory_is_back(model, memory);
  model.async_unload(ShutdownMode::drain, boost::asio::use_future).get();
  if (model.memory().total() != 0) {
    std::printf("PROBLEM: %zu bytes after the unload\n", model.memory().total());
    good = false;
  }
  return tally.report() && good;
}

}  // namespace
}  // namespace tinyloop::stress

int main(int argc, char** argv) {
  tinyloop::stress::Options options;
  if (!tinyloop::stress::parse(argc, argv, options)) {
    std::fprintf(
        stderr,
        "usage: tinyloop_stress [--seed N] [--requests N] [--threads N] [--min-cancels N]\n"
        "                       [--device cpu|cuda:N]\n");
    return 2;
  }
  try {
    return tinyloop::stress::run(options) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tinyloop_stress: %s\n", error.what());
    return 1;
  }
}
