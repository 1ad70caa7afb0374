#include "stress/driver.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <latch>
#include <memory>
#include <optional>

#include "stress/arrival_executor.h"

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

}  // namespace

// A request that completes by a handler and may be cancelled through a slot.
template <class Result>
struct Driver::Flight {
  asio::cancellation_signal signal;
  std::promise<std::pair<error_code, Result>> promise;
  std::atomic<int> calls{0};

  void set(error_code error, Result result) {
    if (++calls == 1) promise.set_value({error, std::move(result)});
  }
  auto handler() {
    return asio::bind_cancellation_slot(
        signal.slot(), [this](error_code error, Result result) { set(error, std::move(result)); });
  }
  auto future() { return asio::bind_cancellation_slot(signal.slot(), outcome_future<Result>()); }
  void cancel() { signal.emit(asio::cancellation_type::all); }
};

namespace {

void append(GenerateResult& result, const StreamChunk& chunk) {
  result.tokens.insert(result.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
  result.text += chunk.text;
  result.logprobs.insert(result.logprobs.end(), chunk.logprobs.begin(), chunk.logprobs.end());
  if (!chunk.summary) return;
  result.finish_reason = chunk.summary->finish_reason;
  result.timings = chunk.summary->timings;
}

}  // namespace

void spin(int32_t turns) {
  for (std::atomic<int32_t> left{turns}; left.load(std::memory_order_relaxed) > 0;) --left;
}

Cutter::Cutter(const Job& job, const Pace& pace, std::function<void()> cancel)
    : job_(job), cancel_(std::move(cancel)) {
  if (job.cut != Cut::cancel) return;
  if (job.aim == Aim::queued) shoot_after({});
  if (job.aim == Aim::prefill) shoot_after(pace.until_prefill(job.share));
}

void Cutter::shoot(Aim aim) {
  if (job_.cut == Cut::cancel && job_.aim == aim) shoot_after({});
}

void Cutter::shoot_after(std::chrono::microseconds wait) {
  const auto act = [this, wait] {
    if (wait.count() > 0) std::this_thread::sleep_for(wait);
    if (job_.aim == Aim::queued) spin(job_.delay);
    cancel_();
  };
  if (!job_.elsewhere) return act();
  other_ = std::thread([this, act] {
    act();
    cancel_();
  });
  if (job_.aim > Aim::decode) other_.join();  // it must come before or after the handler
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

// Any moment will do for a cancel that is to come when the request is done.
void Driver::drive_future(const Job& job) {
  Flight<GenerateResult> flight;
  auto future = model_.async_generate(workload_.request(job), flight.future());
  Cutter cutter(job, tally_.pace(job), [&] { flight.cancel(); });
  const auto [error, result] = future.get();
  cutter.shoot(Aim::done);
  tally_.generated(job, error, result);
}

void Driver::drive_callback(const Job& job) {
  Flight<GenerateResult> flight;
  const auto start = [&](auto handler) {
    model_.async_generate(workload_.request(job), std::move(handler));
  };
  const auto [error, result] = await_outcome(job, flight, start);
  tally_.generated(job, error, result);
}

void Driver::drive_score(const Job& job) {
  Flight<ScoreResult> flight;
  const auto start = [&](auto handler) {
    model_.async_score(workload_.score_request(job), std::move(handler));
  };
  const auto [error, result] = await_outcome(job, flight, start);
  tally_.scored(job, error, result);
}

// On the engine's thread; or on an executor that waits for a cancel between outcome and handler.
template <class Result, class Start>
std::pair<error_code, Result> Driver::await_outcome(const Job& job, Flight<Result>& flight,
                                                    Start start) {
  const auto place = std::make_shared<ArrivalExecutor::Place>();
  const bool held = job.cut == Cut::cancel && job.aim == Aim::completing;
  if (held) {
    start(asio::bind_executor(ArrivalExecutor(place), flight.handler()));
  } else {
    start(flight.handler());
  }
  Cutter cutter(job, tally_.pace(job), [&] { flight.cancel(); });
  if (held) {
    place->wait();
    cutter.shoot(Aim::completing);
    place->run();
  }
  auto outcome = flight.promise.get_future().get();
  cutter.shoot(Aim::done);
  return outcome;
}

// The chunks, put together, must be the result.
void Driver::drive_chunks(const Job& job) {
  Flight<GenerateResult> flight;
  GenerateResult pieces;
  pieces.tokens = workload_.request(job).tokens;
  std::latch first(1);
  int32_t chunks = 0;
  const auto tell = [&] {
    if (chunks++ == 0) first.count_down();
  };
  model_.async_generate(
      workload_.request(job),
      [&](const StreamChunk& chunk) {
        append(pieces, chunk);
        tell();
      },
      asio::bind_cancellation_slot(flight.signal.slot(),
                                   [&](error_code error, GenerateResult result) {
                                     tell();  // there may have been none
                                     flight.set(error, std::move(result));
                                   }));
  Cutter cutter(job, tally_.pace(job), [&] { flight.cancel(); });
  first.wait();
  cutter.shoot(Aim::decode);
  const auto [error, result] = flight.promise.get_future().get();
  cutter.shoot(Aim::done);
  tally_.generated(job, error, result);
  if (!error && (pieces.tokens != result.tokens || pieces.text != result.text))
    tally_.problem(job, "the chunks are not the result");
}

// Reads with cancels of the reads themselves among them, unless the request is cancelled: then an
// aborted read could mean either. A stream is cut by cancel(), or dropped.
void Driver::drive_stream(const Job& job) {
  std::optional<TokenStream> stream = model_.stream(workload_.request(job));
  Cutter cutter(job, tally_.pace(job), [&] { stream->cancel(); });
  GenerateResult result;
  result.tokens = workload_.request(job).tokens;
  for (int32_t reads = 0;; ++reads) {
    if (job.cut == Cut::drop && reads == job.delay % 4) {
      spin(job.delay);
      stream.reset();
      return tally_.dropped();
    }
    if (reads == job.reads) cutter.shoot(Aim::decode);
    asio::cancellation_signal signal;
    auto next = stream->async_next(
        asio::bind_cancellation_slot(signal.slot(), outcome_future<StreamChunk>()));
    const bool abort = !job.may_be_cancelled() && (job.delay + reads) % 3 == 0;
    if (abort) signal.emit(asio::cancellation_type::total);
    const auto [error, chunk] = next.get();
    if (abort && error == errc::operation_aborted) continue;
    append(result, chunk);
    if (!error && !chunk.summary) continue;
    cutter.shoot(Aim::done);
    return tally_.generated(job, error, result);
  }
}

}  // namespace tinyloop::stress
