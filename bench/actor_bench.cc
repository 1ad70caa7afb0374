// What it costs to hand a replica work and to hear back: actor_bench [samples]
//
//   hop       bare wake-up of a sleeping thread: the floor. An operation needs two of them
//   idle      an async_trim (the least work there is) sent to a replica that sleeps, until its
//             handler runs on the engine's thread: mailbox, two wake-ups, one post
//   foreign   the same with the handler on an io_context that another thread runs
//   courier   the same on a strand: a third wake-up, for the thread that posts there
//   chained   the next one is sent by the handler of the one before; each time the replica's thread
//             and the engine's have gone to sleep, but their cores have not
//   messages  requests through the mailbox alone, from 8 threads to one reader
//
// Before each sample of the first four the sender sleeps for the time shown, and everybody with it.
// Times are wall clock; percentiles over all samples of a run.
#include <algorithm>
#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/inbox.h"
#include "actors/waker.h"
#include "tests/support/random_model.h"
#include "tinyloop/tinyloop.h"

namespace tinyloop {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

void print_percentiles(const std::string& name, std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double share) { return samples[size_t(share * double(samples.size() - 1))]; };
  std::printf(
      "%-11s %7zu samples   min %6.1f   median %6.1f   p90 %6.1f   p99 %6.1f   max %8.1f us\n",
      name.c_str(), samples.size(), at(0), at(0.5), at(0.9), at(0.99), at(1));
}

// One handler at a time: when it ran, for the thread that waits for it.
class Arrival {
 public:
  auto handler() {
    return [this](const error_code& error, size_t) {
      if (error) std::abort();
      time_ = Clock::now();
      arrived_.store(true);
      arrived_.notify_one();
    };
  }
  Clock::time_point wait() {
    arrived_.wait(false);
    arrived_.store(false);
    return time_;
  }

 private:
  Clock::time_point time_;
  std::atomic<bool> arrived_{false};
};

// A core that has slept for some 200 us wakes up more slowly than one that has just gone idle.
constexpr std::chrono::microseconds kNaps[] = {std::chrono::microseconds(50),
                                               std::chrono::microseconds(300)};

// `start(handler)` sends one operation. Between two of them everybody falls asleep.
template <class Start>
void measure_after_nap(const char* name, std::chrono::microseconds nap, size_t samples,
                       Start&& start) {
  constexpr size_t kWarmUp = 100;
  std::vector<double> times;
  Arrival arrival;
  for (size_t i = 0; i < samples + kWarmUp; ++i) {
    std::this_thread::sleep_for(nap);
    const auto begin = Clock::now();
    start(arrival.handler());
    const auto end = arrival.wait();
    if (i >= kWarmUp) times.push_back(microseconds(end - begin));
  }
  print_percentiles(name + (" " + std::to_string(nap.count())), std::move(times));
}

template <class Start>
void measure_idle(const char* name, size_t samples, Start&& start) {
  for (const auto nap : kNaps) measure_after_nap(name, nap, samples, start);
}

// Without any of the library's code: a thread that sleeps on an atomic, as the replica's does.
void measure_hop(size_t samples) {
  actors::Waker waker;
  std::atomic<bool> stopping{false};
  std::function<void(const error_code&, size_t)> handler;
  std::thread sleeper([&] {
    for (uint32_t epoch = 0; !stopping.load(); epoch = waker.epoch()) {
      if (auto call = std::exchange(handler, nullptr)) call({}, 0);
      waker.park(epoch);
    }
  });
  measure_idle("hop", samples, [&](auto call) {
    handler = std::move(call);
    waker.wake();
  });
  stopping.store(true);
  waker.wake();
  sleeper.join();
}

void measure_foreign(const Model& model, size_t samples) {
  asio::io_context io(1);
  auto work = asio::make_work_guard(io);
  std::thread runner([&] { io.run(); });
  measure_idle("foreign", samples, [&](auto handler) {
    model.async_trim(asio::bind_executor(io, std::move(handler)));
  });
  measure_idle("courier", samples, [&, strand = asio::make_strand(io)](auto handler) {
    model.async_trim(asio::bind_executor(strand, std::move(handler)));
  });
  work.reset();
  runner.join();
}

// Each handler sends the next operation, so that no thread sleeps for longer than the others work.
class Chain {
 public:
  Chain(const Model& model, size_t samples) : model_(model), left_(samples) {}

  std::vector<double> run() {
    next();
    done_.wait(false);
    return std::move(times_);
  }

 private:
  void next() {
    const auto begin = Clock::now();
    model_.async_trim([this, begin](const error_code&, size_t) {
      times_.push_back(microseconds(Clock::now() - begin));
      if (--left_ > 0) return next();
      done_.store(true);
      done_.notify_one();
    });
  }

  const Model& model_;
  size_t left_;
  std::vector<double> times_;
  std::atomic<bool> done_{false};
};

// A request without content.
class Blank final : public actors::Operation {
 public:
  Blank() : Operation(nullptr, {}, {std::nullopt, WhenFull::fail}) {}

 private:
  void deliver(actors::OnThread) noexcept override {}
  const boost::asio::any_io_executor& executor() const noexcept override { return nowhere_; }
  void open() override {}
  void lose() noexcept override {}

  const boost::asio::any_io_executor nowhere_;
};

void measure_mailbox(size_t messages_a_thread) {
  constexpr size_t kProducers = 8;
  actors::Inbox inbox(1024);
  std::vector<std::thread> producers;
  const auto begin = Clock::now();
  for (size_t p = 0; p < kProducers; ++p) {
    producers.emplace_back([&] {
      const actors::OperationPtr operation(new Blank);
      for (size_t sent = 0; sent < messages_a_thread;) {
        if (inbox.send(operation) == actors::Sent::accepted) {
          ++sent;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (size_t left = kProducers * messages_a_thread; left > 0;) {
    const uint32_t epoch = inbox.waker.epoch();
    const size_t before = left;
    inbox.mailbox.drain([&](auto&) {
      inbox.mailbox.left_queue();
      --left;
    });
    if (left == before) inbox.waker.park(epoch);
  }
  const double seconds = microseconds(Clock::now() - begin) * 1e-6;
  for (auto& producer : producers) producer.join();
  std::printf("messages    %zu from %zu threads: %.2f million/s\n", kProducers * messages_a_thread,
              kProducers, double(kProducers * messages_a_thread) / seconds * 1e-6);
}

void run(size_t samples) {
  const auto file = testing::write_random_model();
  Engine engine;
  ModelOptions options;
  options.device = "cpu";
  options.max_seq_len = 128;
  options.cpu_threads = 1;
  const Model model = engine.load(file.path(), options);
  measure_hop(samples);
  measure_idle("idle", samples, [&](auto handler) { model.async_trim(std::move(handler)); });
  measure_foreign(model, samples);
  print_percentiles("chained", Chain(model, samples * 10).run());
  measure_mailbox(500'000);
}

}  // namespace
}  // namespace tinyloop

int main(int argc, char** argv) {
  const size_t samples = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000;
  if (samples == 0) {
    std::fprintf(stderr, "usage: actor_bench [samples]\n");
    return 2;
  }
  tinyloop::run(samples);
  return 0;
}
