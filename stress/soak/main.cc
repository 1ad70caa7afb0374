// tinyloop_soak: a service's life, shortened. Threads of callers send every kind of operation to a
// model of several replicas with too little memory, while replicas fail, are drained and loaded
// again. From time to time everybody stops, and nothing may be left.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>
#include <vector>

#include "stress/soak/chaos.h"
#include "stress/soak/client.h"
#include "stress/soak/rest.h"
#include "tests/support/random_model.h"

namespace tinyloop::soak {
namespace {

using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

struct Options {
  uint64_t seed = 1;
  double seconds = 20;
  uint64_t operations = 0;  // and at least so many
  size_t threads = 8;
  double rest_every = 5;     // seconds
  int chaos_interval = 200;  // milliseconds
  std::string device = "cpu,cpu";
  size_t heap_slack = size_t{1} << 20;
  size_t resident_slack = size_t{16} << 20;
};

ModelOptions model_options(const std::string& device) {
  ModelOptions options;
  options.device = device;
  options.max_seq_len = 96;
  options.prefill_budget = 24;
  options.max_sequences = 6;
  options.max_queued = 12;
  options.reserve_tokens = 8;
  options.max_handles = 24;
  options.cpu_threads = 1;
  options.cache_budget_bytes = size_t{112} << 10;
  return options;
}

// Small, for what is looked for does not depend on the numbers: under ThreadSanitizer most of the
// time goes into arithmetic even so.
testing::ModelShape small_shape() {
  testing::ModelShape shape;
  shape.d_model = shape.ffn = 32;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.vocab = 64;
  shape.shared = 1;
  shape.coda = 0;
  shape.tokenizer = false;
  return shape;
}

std::string first_of(const std::string& devices) {
  return devices.substr(0, devices.find(','));
}

// That a replica was killed is no news here.
EngineOptions quiet() {
  EngineOptions options;
  options.log = [](LogLevel, std::string_view) {};
  return options;
}

class Soak {
 public:
  explicit Soak(const Options& options)
      : options_(options),
        script_(file_.path(), first_of(options.device), options.seed),
        world_(engine_.load(file_.path(), model_options(options.device)), script_,
               ptrdiff_t(options.threads)) {}

  bool run() {
    world_.model.async_trim(boost::asio::use_future).get();
    model_bytes_ = idle_bytes(world_.model);
    world_.renew_pools();
    start();
    const Clock::time_point begin = Clock::now();
    while (Seconds(Clock::now() - begin).count() < options_.seconds ||
           world_.ledger.operations() < options_.operations) {
      std::this_thread::sleep_for(Seconds(options_.rest_every));
      rest(Seconds(Clock::now() - begin).count());
    }
    stop();
    check_at_rest(world_, model_bytes_);
    report(Seconds(Clock::now() - begin).count());
    world_.model.async_unload(ShutdownMode::drain, boost::asio::use_future).get();
    if (world_.model.memory().total() != 0) world_.ledger.problem("unloaded, and holds memory");
    world_.ledger.print();
    return world_.ledger.clean();
  }

 private:
  void start() {
    for (size_t i = 0; i < options_.threads; ++i) {
      threads_.emplace_back([this, i] { Client(world_, options_.seed * 1000003 + i).run(); });
    }
    threads_.emplace_back([this] {
      Chaos(world_, engine_, file_.path(), model_options(first_of(options_.device)), options_.seed)
          .run(std::chrono::milliseconds(options_.chaos_interval));
    });
  }

  // Chaos ends each act with every replica in service; what it is in the midst of ends first.
  void rest(double seconds) {
    world_.pauses = true;
    world_.meet();
    const auto all_serve = [&] {
      for (const auto& replica : world_.model.health().replicas) {
        if (!replica.can_serve) return false;
      }
      return true;
    };
    for (int i = 0; i < 10000 && !all_serve(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    check_at_rest(world_, model_bytes_);
    const ProcessMemory memory = process_memory();
    heap_.push_back(memory.heap);
    resident_.push_back(memory.resident);
    std::printf("%7.0f s  %9llu operations  heap %8.2f MiB  resident %8.2f MiB  %s\n", seconds,
                (unsigned long long)world_.ledger.operations(), double(memory.heap) / 1048576,
                double(memory.resident) / 1048576, world_.ledger.clean() ? "" : "PROBLEMS");
    std::fflush(stdout);
    world_.renew_pools();
    world_.pauses = false;
    world_.meet();
  }

  void stop() {
    world_.stop = true;
    for (std::thread& thread : threads_) thread.join();
  }

  void report(double seconds) {
    const Statistics statistics = world_.model.statistics();
    std::printf(
        "%llu operations in %.0f s, %llu preemptions, %llu replicas killed, %llu drained or "
        "loaded again\n",
        (unsigned long long)world_.ledger.operations(), seconds,
        (unsigned long long)statistics.preemptions, (unsigned long long)world_.kills.load(),
        (unsigned long long)world_.drains.load());
    if (!is_flat(heap_, options_.heap_slack)) world_.ledger.problem("the heap grows");
    if (!is_sanitized() && !is_flat(resident_, options_.resident_slack))
      world_.ledger.problem("the process grows");
    if (world_.ledger.operations() > 20000 && statistics.preemptions == 0) {
      world_.ledger.problem("no preemption at all");
    }
  }

  const Options options_;
  const testing::RandomModel file_ = testing::write_random_model(small_shape());
  Engine engine_{quiet()};
  const Script script_;
  World world_;
  std::vector<std::thread> threads_;
  size_t model_bytes_ = 0;
  std::vector<size_t> heap_, resident_;  // at each rest
};

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("Mixes every kind of operation for as long as asked, and checks all along.");
  app.add_option("--seed", options.seed)->capture_default_str();
  app.add_option("--seconds", options.seconds, "at least")->capture_default_str();
  app.add_option("--operations", options.operations, "at least")->capture_default_str();
  app.add_option("--threads", options.threads)->capture_default_str();
  app.add_option("--rest-every", options.rest_every, "seconds")->capture_default_str();
  app.add_option("--chaos-every", options.chaos_interval, "milliseconds")->capture_default_str();
  app.add_option("--device", options.device, "of each replica")->capture_default_str();
  app.add_option("--heap-slack", options.heap_slack, "bytes")->capture_default_str();
  app.add_option("--resident-slack", options.resident_slack, "bytes")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  // One arena: else what lies unused in those of threads that have ended looks like growth.
  mallopt(M_ARENA_MAX, 1);
  std::printf("seed %llu, %zu threads, %s\n", (unsigned long long)options.seed, options.threads,
              options.device.c_str());
  return Soak(options).run() ? 0 : 1;
}

}  // namespace
}  // namespace tinyloop::soak

int main(int argc, char** argv) {
  try {
    return tinyloop::soak::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tinyloop_soak: %s\n", error.what());
    return 1;
  }
}
