#include "bench/schedule/callers.h"

#include <algorithm>
#include <atomic>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace tinyloop::bench {

namespace {

using Clock = std::chrono::steady_clock;

GenerateRequest request_of(const ModelInfo& info, const CallersLoad& load, int32_t index) {
  std::mt19937 random(load.seed * 1000003u + uint32_t(index));
  GenerateRequest request;
  for (int32_t i = 0; i < load.prompt; ++i) {
    request.tokens.push_back(int32_t(random() % uint32_t(info.vocab)));
  }
  const auto depths = uint32_t(load.deepest - load.shallowest + 1);
  request.config.loops = load.shallowest + int32_t(random() % depths);
  request.config.max_tokens = load.tokens;
  request.config.eos = EosMode::ignore;
  request.when_full = WhenFull::wait;
  return request;
}

// Tokens and time between two moments.
class Window {
 public:
  void begin(const Model& model) { mark(model, from_); }
  void end(const Model& model) { mark(model, to_); }
  double tokens_per_s() const {
    const double seconds = std::chrono::duration<double>(to_.at - from_.at).count();
    return double(to_.tokens - from_.tokens) / seconds;
  }

 private:
  struct Mark {
    Clock::time_point at;
    uint64_t tokens = 0;
  };
  static void mark(const Model& model, Mark& mark) {
    mark = {Clock::now(), model.statistics().generated_tokens};
  }

  Mark from_, to_;
};

// Handlers run on the engine's own thread, one after another.
class Callers {
 public:
  Callers(const Model& model, const CallersLoad& load) : model_(model), load_(load) {}

  double run() {
    for (int32_t i = 0; i < load_.callers; ++i) send_next();
    done_.get_future().get();
    return window_.tokens_per_s();
  }

 private:
  void send_next() {
    const int32_t index = sent_.fetch_add(1);
    if (index >= load_.requests) return;
    model_.async_generate(request_of(model_.info(), load_, index),
                          [this](const error_code& error, const GenerateResult&) {
                            if (error) return fail(error);
                            completed();
                          });
  }

  void completed() {
    const int32_t count = ++completed_;
    if (count == load_.requests / 5) window_.begin(model_);
    if (count == load_.requests / 5 * 4) window_.end(model_);
    if (count == load_.requests) return done_.set_value();
    send_next();
  }

  void fail(const error_code& error) {
    if (failed_.exchange(true)) return;
    done_.set_exception(std::make_exception_ptr(boost::system::system_error(error)));
  }

  const Model model_;
  const CallersLoad load_;
  std::atomic<int32_t> sent_{0};
  std::atomic<bool> failed_{false};
  int32_t completed_ = 0;
  Window window_;
  std::promise<void> done_;
};

}  // namespace

double callers_tokens_per_s(const Model& model, const CallersLoad& load) {
  return Callers(model, load).run();
}

double arrivals_tokens_per_s(const Model& model, const CallersLoad& load, double spread_us) {
  std::mt19937 random(load.seed);
  std::uniform_real_distribution<double> offset(0, spread_us);
  Window window;
  std::once_flag first;
  std::vector<std::future<void>> ends;
  std::vector<double> starts;
  for (int32_t i = 0; i < load.callers; ++i) starts.push_back(spread_us > 0 ? offset(random) : 0);
  std::sort(starts.begin(), starts.end());
  const Clock::time_point begin = Clock::now();
  for (int32_t i = 0; i < load.callers; ++i) {
    const std::chrono::duration<double, std::micro> wait(starts[size_t(i)]);
    while (Clock::now() - begin < wait) std::this_thread::yield();
    const auto ended = std::make_shared<std::promise<void>>();
    ends.push_back(ended->get_future());
    model.async_generate(request_of(model.info(), load, i), [&, ended](const error_code& error,
                                                                       const GenerateResult&) {
      std::call_once(first, [&] { window.end(model); });
      if (!error) return ended->set_value();
      ended->set_exception(std::make_exception_ptr(boost::system::system_error(error)));
    });
  }
  while (model.health().replicas[0].active < size_t(load.callers)) std::this_thread::yield();
  window.begin(model);
  for (auto& end : ends) end.get();
  return window.tokens_per_s();
}

}  // namespace tinyloop::bench
