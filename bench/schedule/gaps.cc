#include "bench/schedule/gaps.h"

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/calls.h"
#include "bench/samples.h"

namespace tinyloop::bench {

namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::duration;

Intervals intervals_of(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  return {us[us.size() / 2], us[us.size() * 99 / 100], us.back()};
}

GenerateRequest request_of(const Model& model, int32_t prompt, int32_t loops, int32_t tokens) {
  return greedy(some_tokens(prompt, model.info().vocab, 1), loops, tokens);
}

// When each token of a stream came.
class Arrivals {
 public:
  void note() {
    const std::lock_guard lock(mutex_);
    times_.push_back(SteadyClock::now());
  }
  size_t count() const {
    const std::lock_guard lock(mutex_);
    return times_.size();
  }
  void wait_for(size_t tokens) const {
    while (count() < tokens) std::this_thread::yield();
  }
  // Microseconds between neighbours of which the second came within [from, to].
  std::vector<double> intervals(SteadyClock::time_point from, SteadyClock::time_point to) const {
    const std::lock_guard lock(mutex_);
    std::vector<double> result;
    for (size_t i = 1; i < times_.size(); ++i) {
      if (times_[i] < from || times_[i - 1] > to) continue;
      result.push_back(duration<double, std::micro>(times_[i] - times_[i - 1]).count());
    }
    return result;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<SteadyClock::time_point> times_;
};

// The prompt's tokens a second, and when it was under way.
struct Prompt {
  SteadyClock::time_point from, to;
  double tokens_per_s = 0;
};

Prompt run_prompt(const Model& model, int32_t prompt, int32_t loops) {
  Prompt result;
  result.from = SteadyClock::now();
  generate(model, request_of(model, prompt, loops, 1));
  result.to = SteadyClock::now();
  result.tokens_per_s = prompt / duration<double>(result.to - result.from).count();
  return result;
}

}  // namespace

GapFigures measure_gaps(const Model& model, int32_t prompt, int32_t loops, int32_t rounds) {
  constexpr size_t kQuiet = 100;  // tokens of the stream before a prompt comes
  GapFigures figures;
  std::vector<double> prompt_alone, prompt_beside, alone, beside;
  for (int32_t round = 0; round <= rounds; ++round) {
    const Prompt by_itself = run_prompt(model, prompt, loops);
    Arrivals arrivals;
    boost::asio::cancellation_signal stop;
    const int32_t most = model.info().max_seq_len - 8;
    auto stream = model.async_generate(
        request_of(model, 8, loops, most), [&arrivals](const StreamChunk&) { arrivals.note(); },
        boost::asio::bind_cancellation_slot(stop.slot(), boost::asio::use_future));
    arrivals.wait_for(kQuiet / 2);
    const SteadyClock::time_point quiet = SteadyClock::now();
    arrivals.wait_for(arrivals.count() + kQuiet);
    const Prompt with_stream = run_prompt(model, prompt, loops);
    arrivals.wait_for(arrivals.count() + 2);
    stop.emit(boost::asio::cancellation_type::terminal);
    stream.get();
    if (round == 0) continue;  // to warm up
    for (const double us : arrivals.intervals(quiet, with_stream.from)) alone.push_back(us);
    for (const double us : arrivals.intervals(with_stream.from, with_stream.to)) {
      beside.push_back(us);
    }
    prompt_alone.push_back(by_itself.tokens_per_s);
    prompt_beside.push_back(with_stream.tokens_per_s);
  }
  figures.alone = intervals_of(alone);
  figures.beside = intervals_of(beside);
  figures.prompt_tokens_per_s = median(prompt_beside);
  figures.prompt_alone_tokens_per_s = median(prompt_alone);
  return figures;
}

}  // namespace tinyloop::bench
