#include "stress/sim/scheduler.h"

#include <algorithm>
#include <utility>

#include "stress/sim/host_memory.h"
#include "stress/sim/violation.h"

namespace tinyloop::sim {

namespace {

// In one simulation; then what begins ends without any.
constexpr uint64_t kMostInterruptions = 5000;

}  // namespace

TimePoint SimClock::now() const noexcept {
  scheduler_.point();
  return now_ += std::chrono::microseconds(1);
}

void Scheduler::take(const std::string& name, std::shared_ptr<actors::Loop> loop) {
  loops_.push_back(std::make_unique<LoopRecord>());
  loops_.back()->name = name;
  loops_.back()->loop = std::move(loop);
  loops_.back()->may_lack_memory = name.starts_with("tinyloop-r");
}

void Scheduler::step() {
  ++steps_;
  const Choice choice = choose();
  if (run(choice)) return;
  if (turn() || handler()) return;
  look_at_rest();
  if (!client()) time_to_wake();
}

Scheduler::Choice Scheduler::choose() {
  size_t drawn = random_.below(habits.turns + habits.handlers + habits.clients + habits.time);
  if (drawn < habits.turns) return Choice::turn;
  drawn -= habits.turns;
  if (drawn < habits.handlers) return Choice::handler;
  return drawn - habits.handlers < habits.clients ? Choice::client : Choice::time;
}

bool Scheduler::run(Choice choice) {
  switch (choice) {
    case Choice::turn:
      return turn();
    case Choice::handler:
      return handler();
    case Choice::client:
      return client();
    case Choice::time:
      clock_.advance(std::chrono::microseconds(random_.between(1, 400)));
      return true;
  }
  return false;
}

// What is looked at must not move meanwhile.
void Scheduler::look_at_rest() {
  looking_ = true;
  at_rest();
  looking_ = false;
}

void Scheduler::point() noexcept {
  if (looking_ || depth_ >= habits.depth || nested_ >= kMostInterruptions || --countdown_ > 0)
    return;
  countdown_ = 1 + random_.below(2 * habits.interval);
  const Allocating ours(nullptr);
  ++depth_;
  ++nested_;
  Choice choice = choose();
  if (settling_ && choice == Choice::client) choice = Choice::turn;
  run(choice);
  --depth_;
}

// What the real loop's park() would wait for.
bool Scheduler::may_turn(const LoopRecord& record) const {
  if (!record.loop || record.running) return false;
  return !record.asleep || record.loop->waker().epoch() != record.epoch ||
         (record.until && *record.until <= clock_.peek());
}

bool Scheduler::turn() {
  std::vector<LoopRecord*> ready;
  for (const auto& record : loops_) {
    if (may_turn(*record)) ready.push_back(record.get());
  }
  if (ready.empty()) return false;
  turn(*random_.of(ready));
  return true;
}

void Scheduler::turn(LoopRecord& record) {
  ++turns_;
  clock_.advance(std::chrono::microseconds(1));
  record.starts.push_back(clock_.peek());
  record.running = true;
  record.epoch = record.loop->waker().epoch();
  turning_.push_back(&record);
  if (is_verbose()) trace(std::string(turning_.size(), '>') + " turn of " + record.name);
  actors::Loop::Next next;
  {
    const Allocating its(record.may_lack_memory ? &record.refused : nullptr);
    next = record.loop->turn();
  }
  if (is_verbose()) trace(std::string(turning_.size(), '<') + " turn of " + record.name);
  turning_.pop_back();
  record.running = false;
  record.asleep = next.kind == actors::Loop::Next::sleep;
  record.until = next.until;
  if (next.kind != actors::Loop::Next::end) return;
  const auto ended = std::exchange(record.loop, nullptr);
}

bool Scheduler::handler() {
  if (handlers_running_ > 0 && !habits.many_threads) return false;
  ++handlers_running_;
  // Asio's count of work may come to nothing for a moment where polls are nested.
  if (io_.stopped()) io_.restart();
  const bool ran = io_.poll_one() > 0;
  --handlers_running_;
  return ran;
}

// False: nobody sleeps until a time.
bool Scheduler::time_to_wake() {
  std::optional<TimePoint> first;
  for (const auto& record : loops_) {
    if (record->loop && record->until)
      first = std::min(first.value_or(*record->until), *record->until);
  }
  if (!first) return false;
  const auto wait = std::chrono::duration_cast<std::chrono::microseconds>(*first - clock_.peek());
  clock_.advance(std::max(wait, std::chrono::microseconds(1)));
  return true;
}

void Scheduler::settle(size_t most_turns) {
  settling_ = true;
  const uint64_t limit = turns_ + most_turns;
  for (;;) {
    require(turns_ <= limit, "the engine turns and turns, and does not come to rest");
    ++steps_;
    const bool handlers_first = random_.one_in(2);
    if (handlers_first ? handler() || turn() : turn() || handler()) continue;
    look_at_rest();
    if (!time_to_wake()) break;
  }
  settling_ = false;
}

}  // namespace tinyloop::sim
