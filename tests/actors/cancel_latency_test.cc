// How soon a cancel takes effect, counted in passes: thousands of them, at random moments.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iostream>
#include <map>
#include <mutex>
#include <random>
#include <vector>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {
namespace {

namespace asio = boost::asio;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kCancels = 1000;
#else
constexpr uint64_t kCancels = 10000;
#endif
constexpr uint64_t kSeed = 20261130;
constexpr size_t kPlaces = 8;  // requests outstanding at once, of which four run

// Few places and thin slices, so that at any moment some requests queue, some prefill in several
// slices, and some decode.
ModelOptions crowded() {
  ModelOptions options = small_options();
  options.max_queued = int32_t(kPlaces);
  options.prefill_budget = 8;
  return options;
}

// What the replica's thread sees of each request. Its prompt begins with a token that names the
// place it has among those outstanding. Passes are let go a few at a time: on a busy machine the
// replica would end every request before its cancel comes.
class Passes {
 public:
  // The pass that runs or is about to; they count from 1.
  uint64_t begun() const {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  void allow(uint64_t more) {
    const std::lock_guard lock(mutex_);
    if (more > 0) allowed_ = std::max(allowed_, begun_ + more - 1);
    changed_.notify_all();
  }
  // Returns when the replica stands before a pass, and after a while where it has none to run.
  void wait_until_stopped() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(5), [&] { return begun_ > allowed_; });
  }
  // The last pass with rows of the request; 0: none. Behind the end of the replica.
  uint64_t last_of(uint64_t request) const {
    const auto found = last_.find(request);
    return found == last_.end() ? 0 : found->second;
  }
  // From now on the place is this request's. The one before has completed.
  void occupy(size_t place, uint64_t request) { occupant_[place].store(request); }

  void observe(const engine::StepPlan& plan) {
    std::unique_lock lock(mutex_);
    const uint64_t pass = ++begun_;
    for (const engine::ChunkStep& chunk : plan.chunks) {
      auto known = request_of_.find(chunk.sequence);
      if (known == request_of_.end()) {
        ASSERT_EQ(chunk.first_position, 0);
        const auto place = size_t(plan.tokens[size_t(chunk.first_row)]) - 1;
        known = request_of_.emplace(chunk.sequence, occupant_.at(place).load()).first;
      }
      last_[known->second] = pass;
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return pass <= allowed_; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t begun_ = 0, allowed_ = 0;
  std::array<std::atomic<uint64_t>, kPlaces> occupant_{};
  std::map<uint64_t, uint64_t> request_of_;  // by sequence
  std::map<uint64_t, uint64_t> last_;        // by request
};

// Sends requests, cancels each at a random moment, and takes their outcomes, all on one thread: so
// between two of its own deeds only the replica moves.
class Canceller {
 public:
  explicit Canceller(const ServedModel& served, Passes& passes)
      : model_(served.model), passes_(passes) {
    for (size_t place = 0; place < kPlaces; ++place) free_.push_back(place);
  }

  // Until so many cancels have ended requests.
  void run(uint64_t cancels) {
    while (effective_ < cancels && !::testing::Test::HasFailure()) {
      while (!free_.empty()) send();
      wait_a_while();
      for (size_t left = 1 + draw(3); left > 0; --left) cancel_one();
      io_.restart();
      io_.poll();
    }
    passes_.allow(1 << 20);
    for (Place& place : places_) {
      if (!place.cancelled && place.request != 0) place.signal.emit(asio::cancellation_type::all);
    }
    io_.restart();
    io_.run();
    EXPECT_EQ(free_.size(), kPlaces);
  }

  uint64_t too_late() const { return too_late_; }
  // By request: the pass that had begun last when its cancel was on its way.
  const std::map<uint64_t, uint64_t>& reached() const { return reached_; }

 private:
  struct Place {
    uint64_t request = 0;  // 0: it is free
    size_t kind = 0;
    bool cancelled = false;
    asio::cancellation_signal signal{};
  };

  static GenerateRequest request_of_kind(size_t kind) {
    GenerateRequest what = request(int32_t(60 + 5 * (kind % 4)));
    what.tokens.resize(2 + 14 * (kind / 4), 7);
    what.config.loops = int32_t(1 + kind % 3);
    return what;
  }

  size_t draw(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random_); }

  void send() {
    const size_t index = free_.front();
    free_.pop_front();
    Place& place = places_[index];
    place.request = ++sent_;
    place.kind = draw(kKinds);
    place.cancelled = false;
    passes_.occupy(index, place.request);
    GenerateRequest what = request_of_kind(place.kind);
    what.tokens[0] = int32_t(1 + index);
    outstanding_bytes_ += bytes_of_kind(place.kind);
    model_.async_generate(
        what, asio::bind_executor(io_, asio::bind_cancellation_slot(
                                           place.signal.slot(),
                                           [this, index](error_code error, const auto& result) {
                                             completed(index, error, result.finish_reason);
                                           })));
  }

  // Some passes, or a moment within them.
  void wait_a_while() {
    passes_.allow(draw(8));
    if (draw(4) > 0) return passes_.wait_until_stopped();
    const auto moment = std::chrono::steady_clock::now() + std::chrono::microseconds(draw(60));
    while (std::chrono::steady_clock::now() < moment) {
    }
  }

  void cancel_one() {
    Place& place = places_[draw(kPlaces)];
    if (place.request == 0 || place.cancelled) return;
    place.cancelled = true;
    place.signal.emit(asio::cancellation_type::terminal);
    reached_[place.request] = passes_.begun();
  }

  void completed(size_t index, error_code error, FinishReason reason) {
    Place& place = places_[index];
    outstanding_bytes_ -= bytes_of_kind(place.kind);
    EXPECT_TRUE(!error || error == asio::error::operation_aborted) << error.message();
    // Whoever is outstanding has promised bytes at most; this one has none any more.
    EXPECT_LE(model_.memory().cache_reserved, outstanding_bytes_);
    if (place.cancelled) ++(error || reason == FinishReason::cancelled ? effective_ : too_late_);
    place.request = 0;
    free_.push_back(index);
  }

  static constexpr size_t kKinds = 16;
  static size_t bytes_of_kind(size_t kind) {
    static const std::vector<size_t> bytes = [] {
      std::vector<size_t> each;
      for (size_t k = 0; k < kKinds; ++k) each.push_back(bytes_of(request_of_kind(k)));
      return each;
    }();
    return bytes[kind];
  }

  const Model& model_;
  Passes& passes_;
  asio::io_context io_{1};
  std::mt19937_64 random_{kSeed};
  std::array<Place, kPlaces> places_{};
  std::deque<size_t> free_;
  std::map<uint64_t, uint64_t> reached_;
  size_t outstanding_bytes_ = 0;
  uint64_t sent_ = 0, effective_ = 0, too_late_ = 0;
};

// The pass under way when the cancel is sent, or the one whose turn has begun already, is the last
// one with rows of the request: before every later one the replica has looked at its cancels.
TEST(CancelLatency, IsOnePassAndThePagesAreBackWithTheCompletion) {
  ServedModel served(crowded());
  Passes passes;
  visit_replica(served.model, [&](engine::BatchEngine& engine) {
    engine.set_plan_observer([&](const engine::StepPlan& plan) { passes.observe(plan); });
  });
  Canceller canceller(served, passes);
  canceller.run(kCancels);
  const Metrics metrics = served.model.metrics()[0];
  EXPECT_EQ(served.model.memory().cache_reserved, 0u);
  EXPECT_EQ(served.model.memory().pages_used, 0u);
  served.model.async_unload(ShutdownMode::drain, asio::use_future).get();

  uint64_t in_the_next = 0;
  for (const auto& [request, reached] : canceller.reached()) {
    const uint64_t last = passes.last_of(request);
    EXPECT_LE(last, reached + 1) << "request " << request;
    in_the_next += last == reached + 1;
  }
  EXPECT_GE(canceller.reached().size(), kCancels);
  for (const uint64_t count :
       {metrics.cancels.queued, metrics.cancels.prefill, metrics.cancels.decode}) {
    EXPECT_GE(count, kCancels / 20);
  }
  std::cout << "seed " << kSeed << ": cancels queued " << metrics.cancels.queued << ", prefill "
            << metrics.cancels.prefill << ", decode " << metrics.cancels.decode << ", too late "
            << canceller.too_late() << "; in the pass after the one under way " << in_the_next
            << "\n";
}

}  // namespace
}  // namespace tinyloop::testing
