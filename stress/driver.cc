#include "stress/driver.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <memory>
#include <optional>

namespace tinyloop::stress {

namespace asio = boost::asio;

namespace {

// A future of the error and the result. Not of a thrown error: ThreadSanitizer does not see the
// reference count of an exception that crosses threads, which is inside libstdc++.so.
template <class Result>
auto outcome_future() {
  return asio::use_future(
      [](error_code error, Result result) { return std::pair(error, std::move(result)); });
}

// A request that completes by a handler and may be cancelled through a slot.
template <class Result>
struct Flight {
  asio::cancellation_signal signal;
  std::promise<std::pair<error_code, Result>> promise;
  std::atomic<int> calls{0};

  auto handler() {
    return asio::bind_cancellation_slot(signal.slot(), [this](error_code error, Result result) {
      if (++calls == 1) promise.set_value({error, std::move(result)});
    });
  }
  auto future() { return asio::bind_cancellation_slot(signal.slot(), outcome_future<Result>()); }
  void cancel() { signal.emit(asio::cancellation_type::all); }
};

void append(GenerateResult& result, const StreamChunk& chunk) {
  result.tokens.insert(result.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
  result.text += chunk.text;
  result.logprobs.insert(result.logprobs.end(), chunk.logprobs.begin(), chunk.logprobs.end());
  if (chunk.summary) result.finish_reason = chunk.summary->finish_reason;
}

}  // namespace

void spin(int32_t turns) {
  for (std::atomic<int32_t> left{turns}; left.load(std::memory_order_relaxed) > 0;) --left;
}

Cutter::Cutter(const Job& job, std::function<void()> cancel) {
  if (job.cut == Cut::cancel) {
    spin(job.delay);
    cancel();
  } else if (job.cut == Cut::cancel_from_another_thread) {
    other_ = std::thread([delay = job.delay, cancel = std::move(cancel)] {
      spin(delay);
      cancel();
      cancel();
    });
  }
}

Cutter::~Cutter() {
  if (other_.joinable()) other_.join();
}

void Driver::run(const std::vector<Job>& jobs) {
  constexpr size_t kInFlight = 3;
  std::vector<std::future<void>> flights(kInFlight);
  for (size_t lane = 0; lane < kInFlight; ++lane) {
    flights[lane] = std::async(std::launch::async, [&, lane] {
      for (size_t i = lane; i < jobs.size(); i += kInFlight) drive(jobs[i]);
    });
  }
  for (auto& flight : flights) flight.get();
}

void Driver::drive(const Job& job) {
  switch (job.kind) {
    case Kind::future:
      return drive_future(job);
    case Kind::callback:
      return drive_callback(job);
    case Kind::chunks:
      return drive_chunks(job);
    case Kind::stream:
      return drive_stream(job);
    case Kind::coroutine:
      return drive_coroutine(model_, workload_, tally_, job);
    case Kind::score:
      return drive_score(job);
  }
}

void Driver::drive_future(const Job& job) {
  Flight<GenerateResult> flight;
  auto future = model_.async_generate(workload_.request(job), flight.future());
  const Cutter cutter(job, [&] { flight.cancel(); });
  const auto [error, result] = future.get();
  tally_.generated(job, error, result);
}

void Driver::drive_callback(const Job& job) {
  Flight<GenerateResult> flight;
  model_.async_generate(workload_.request(job), flight.handler());
  const Cutter cutter(job, [&] { flight.cancel(); });
  const auto [error, result] = flight.promise.get_future().get();
  tally_.generated(job, error, result);
}

// The chunks, put together, must be the result.
void Driver::drive_chunks(const Job& job) {
  Flight<GenerateResult> flight;
  GenerateResult pieces;
  pieces.tokens = workload_.request(job).tokens;
  model_.async_generate(
      workload_.request(job), [&](const StreamChunk& chunk) { append(pieces, chunk); },
      flight.handler());
  const Cutter cutter(job, [&] { flight.cancel(); });
  const auto [error, result] = flight.promise.get_future().get();
  tally_.generated(job, error, result);
  if (!error && (pieces.tokens != result.tokens || pieces.text != result.text))
    tally_.problem(job, "the chunks are not the result");
}

// Reads with cancels of the reads themselves among them, unless the request is cancelled: then an
// aborted read could mean either. A stream is cut by cancel(), or dropped.
void Driver::drive_stream(const Job& job) {
  std::optional<TokenStream> stream = model_.stream(workload_.request(job));
  const Cutter cutter(job, [&] { stream->cancel(); });
  const bool cancels = job.cut == Cut::cancel || job.cut == Cut::cancel_from_another_thread;
  GenerateResult result;
  result.tokens = workload_.request(job).tokens;
  for (int32_t reads = 0;; ++reads) {
    if (job.cut == Cut::drop && reads == job.delay % 4) {
      spin(job.delay);
      stream.reset();
      return tally_.dropped();
    }
    asio::cancellation_signal signal;
    auto next = stream->async_next(
        asio::bind_cancellation_slot(signal.slot(), outcome_future<StreamChunk>()));
    const bool abort = !cancels && (job.delay + reads) % 3 == 0;
    if (abort) signal.emit(asio::cancellation_type::total);
    const auto [error, chunk] = next.get();
    if (abort && error == errc::operation_aborted) continue;
    append(result, chunk);
    if (error || chunk.summary) return tally_.generated(job, error, result);
  }
}

void Driver::drive_score(const Job& job) {
  Flight<ScoreResult> flight;
  model_.async_score(workload_.score_request(job), flight.handler());
  const Cutter cutter(job, [&] { flight.cancel(); });
  const auto [error, result] = flight.promise.get_future().get();
  tally_.scored(job, error, result);
}

}  // namespace tinyloop::stress
