#include "bench_serving.h"

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cmath>
#include <future>
#include <random>
#include <thread>

#include "bench_report.h"
#include "bench_timing.h"

namespace tinyloop::cli {

namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

// Tokens that came together, and when, in microseconds from the beginning.
struct Piece {
  double us = 0;
  int64_t tokens = 0;
};

// A request, when it is due, and what came of it. The engine's own thread writes the pieces until
// the request has completed.
struct Arrival {
  GenerateRequest request;
  double due_us = 0;
  std::vector<Piece> pieces{};
};

int32_t one_of(const std::vector<int32_t>& values, std::mt19937_64& random) {
  return values[random() % values.size()];
}

// The same ones every time for the same seed.
std::vector<Arrival> draw_arrivals(const Model& model, const BenchPlan& plan,
                                   const Sampling& sampling, int32_t loops, double rate) {
  std::mt19937_64 random(sampling.kinds.front().seed + 1);
  std::vector<Arrival> arrivals;
  double due_us = 0;
  for (int32_t i = 0; i < plan.requests; ++i) {
    const double uniform = (double(random() >> 11) + 1) * 0x1p-53;  // (0, 1]
    due_us -= std::log(uniform) * 1e6 / rate;
    Arrival arrival{.request = {}, .due_us = due_us};
    GenerateRequest& request = arrival.request;
    request.tokens = some_tokens(one_of(plan.prompt_tokens, random), model.info().vocab, i);
    request.when_full = WhenFull::wait;
    request.config = sampling.kinds[size_t(i) % sampling.kinds.size()];
    request.config.loops = loops;
    request.config.max_tokens = one_of(plan.gen_tokens, random);
    request.config.eos = EosMode::ignore;
    request.config.seed += uint64_t(i);
    arrival.pieces.reserve(size_t(request.config.max_tokens));
    arrivals.push_back(std::move(arrival));
  }
  return arrivals;
}

// Sends each when it is due, and waits for all.
void serve(const Model& model, std::vector<Arrival>& arrivals) {
  std::vector<std::future<GenerateResult>> results;
  const Clock::time_point begin = Clock::now();
  for (Arrival& arrival : arrivals) {
    std::this_thread::sleep_until(
        begin + std::chrono::duration_cast<Clock::duration>(Microseconds(arrival.due_us)));
    const auto note = [&arrival, begin](const StreamChunk& chunk) {
      if (chunk.tokens.empty()) return;  // the summary
      const double us = Microseconds(Clock::now() - begin).count();
      arrival.pieces.push_back({us, int64_t(chunk.tokens.size())});
    };
    results.push_back(model.async_generate(arrival.request, note, boost::asio::use_future));
  }
  for (auto& result : results) result.wait();  // none may write any more when one throws
  for (auto& result : results) result.get();
}

Quantiles quantiles_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values[(values.size() - 1) / 2], values[(values.size() - 1) * 99 / 100]};
}

// The arrivals are in the order in which they were due.
void judge(const std::vector<Arrival>& arrivals, ServingFigure& figure) {
  const size_t first = arrivals.size() / 5, last = arrivals.size() * 4 / 5;
  const double from_us = arrivals[first].due_us, to_us = arrivals[last].due_us;
  int64_t asked = 0, came = 0;
  std::vector<double> first_tokens, intervals;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    const std::vector<Piece>& pieces = arrivals[i].pieces;
    for (const Piece& piece : pieces) {
      if (piece.us >= from_us && piece.us < to_us) came += piece.tokens;
    }
    if (i < first || i >= last) continue;
    asked += arrivals[i].request.config.max_tokens;
    first_tokens.push_back(pieces.front().us - arrivals[i].due_us);
    for (size_t k = 1; k < pieces.size(); ++k) {
      intervals.push_back(pieces[k].us - pieces[k - 1].us);
    }
  }
  figure.asked_per_s = double(asked) * 1e6 / (to_us - from_us);
  figure.tokens_per_s = double(came) * 1e6 / (to_us - from_us);
  figure.first_token_us = quantiles_of(std::move(first_tokens));
  figure.interval_us = quantiles_of(std::move(intervals));
}

}  // namespace

void measure_serving(const Model& model, const BenchPlan& plan, int32_t loops,
                     BenchReport& report) {
  for (const double rate : plan.rates) {
    for (const Sampling& sampling : plan.samplings) {
      std::vector<Arrival> arrivals = draw_arrivals(model, plan, sampling, loops, rate);
      serve(model, arrivals);
      ServingFigure figure{
          .loops = loops, .rate = rate, .requests = plan.requests, .sampling = sampling.name};
      judge(arrivals, figure);
      report.add(figure);
    }
  }
}

}  // namespace tinyloop::cli
