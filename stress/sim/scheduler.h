// Decides what runs next: a turn of one of the engine's loops, a handler of the clients' executor,
// something that a client does, or time. While one of them runs, the others may seem to run on
// threads of their own: wherever the engine looks at the clock, starts an op or logs.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/loop.h"
#include "stress/sim/clock.h"
#include "stress/sim/random.h"

namespace tinyloop::sim {

// One of the engine's loops, and how it stands.
struct LoopRecord {
  std::string name;
  std::shared_ptr<actors::Loop> loop;  // null: it has ended
  bool running = false;                // a turn is under way
  bool asleep = false;
  bool may_lack_memory = false;
  uint32_t epoch = 0;  // of its bell when the last turn began
  std::optional<TimePoint> until{};
  std::vector<TimePoint> starts{};  // of all its turns
  uint64_t refused = 0;             // allocations of the host's
};

class Scheduler {
 public:
  // How it chooses; drawn from the seed.
  struct Habits {
    size_t turns = 4, handlers = 3, clients = 3, time = 1;  // shares of what comes next
    int depth = 2;                                          // of what runs within each other
    size_t interval = 50;       // points between two interruptions, about
    bool many_threads = false;  // clients' handlers may run beside each other
  };

  explicit Scheduler(uint64_t seed) : random_(seed), clock_(*this) {}

  Random& random() { return random_; }
  SimClock& clock() { return clock_; }
  boost::asio::io_context& io() { return io_; }
  Habits habits;
  std::function<bool()> client;   // does something; false: there is nothing to do
  std::function<void()> at_rest;  // nothing can move but clients and time

  // Takes a loop in place of a thread. The host may refuse memory to a replica's.
  void take(const std::string& name, std::shared_ptr<actors::Loop> loop);
  // The loop whose turn is under way, innermost; null: none.
  LoopRecord* current() { return turning_.empty() ? nullptr : turning_.back(); }
  const std::vector<std::unique_ptr<LoopRecord>>& loops() const { return loops_; }

  // One thing, whatever comes next.
  void step();
  // Here others may run meanwhile.
  void point() noexcept;
  // Runs turns, handlers and time, no clients, until nothing moves. A violation beyond
  // `most_turns`.
  void settle(size_t most_turns);

  uint64_t steps() const { return steps_; }
  uint64_t turns() const { return turns_; }
  uint64_t nested() const { return nested_; }

 private:
  enum class Choice : uint8_t { turn, handler, client, time };

  Choice choose();
  bool run(Choice choice);
  bool turn();
  void turn(LoopRecord& record);
  bool handler();
  bool may_turn(const LoopRecord& record) const;
  bool time_to_wake();
  void look_at_rest();

  Random random_;
  SimClock clock_;
  boost::asio::io_context io_;
  const boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  std::vector<std::unique_ptr<LoopRecord>> loops_;
  std::vector<LoopRecord*> turning_;
  int depth_ = 0;
  int handlers_running_ = 0;
  bool settling_ = false;
  bool looking_ = false;
  size_t countdown_ = 1;
  uint64_t steps_ = 0, turns_ = 0, nested_ = 0;
};

}  // namespace tinyloop::sim
