// Sends jobs to a model, one thread's worth at a time.
#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "stress/tally.h"
#include "stress/workload.h"

namespace tinyloop::stress {

// Cuts a request short as its job says, if its aim is a moment in the queue or in the prefill; else
// the job's driver does it, by shoot(). Lives until the request has completed.
class Cutter {
 public:
  Cutter(const Job& job, const Pace& pace, std::function<void()> cancel);
  ~Cutter();
  // If the job is to be cancelled and has this aim.
  void shoot(Aim aim);

 private:
  void shoot_after(std::chrono::microseconds wait);

  const Job& job_;
  const std::function<void()> cancel_;
  std::thread other_;
};

// Burns `turns` turns: a delay that depends on no clock.
void spin(int32_t turns);

class Driver {
 public:
  Driver(const Model& model, const Workload& workload, Tally& tally)
      : model_(model), workload_(workload), tally_(tally) {}

  // Runs all jobs of a thread, several in flight at a time, until each has completed.
  void run(const std::vector<Job>& jobs);

 private:
  template <class Result>
  struct Flight;

  void drive(const Job& job);
  void drive_future(const Job& job);
  void drive_callback(const Job& job);
  void drive_chunks(const Job& job);
  void drive_stream(const Job& job);
  void drive_score(const Job& job);
  template <class Result, class Start>
  std::pair<error_code, Result> await_outcome(const Job& job, Flight<Result>& flight, Start start);

  const Model& model_;
  const Workload& workload_;
  Tally& tally_;
};

// The request of `job` in a coroutine on an executor of its own; in another file, for coroutines
// compile slowly.
void drive_coroutine(const Model& model, const Workload& workload, Tally& tally, const Job& job);

}  // namespace tinyloop::stress
