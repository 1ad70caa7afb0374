// Accepted requests that have not begun, and the room that is promised to them.
//
// They stand in the order of their ranks. K/V budget is promised from the front: whoever has its
// share stands before all who have not, so nobody overtakes a request that waits for budget, save
// by its priority. What is promised here may be taken back, for requests that run or that go first.
#pragma once

#include <optional>

#include "actors/next_deadline.h"
#include "actors/operation.h"
#include "base/error.h"
#include "engine/batch_engine.h"

namespace tinyloop::actors {

class RequestQueue {
 public:
  // `cache_budget`: ModelOptions::cache_budget_bytes, for messages.
  RequestQueue(engine::BatchEngine& engine, size_t cache_budget);
  ~RequestQueue();
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Takes the request in, or says why not: out_of_memory, it can never fit; overloaded, there is no
  // room for it at the moment and it does not want to wait. request.rank must be set.
  std::optional<base::Error> accept(Operation& operation);

  // The first request, if it has its share of the budget or can have it now, and if the engine has
  // a place for it. Its reservation is the caller's.
  OperationPtr pop();

  // The first that holds a prefix and can be funded, taken out; null if there is none. For when no
  // request is running and pop() gives none: what the others wait for may be that very prefix,
  // which nobody can give back while the request that holds it waits behind them.
  OperationPtr pop_holder();

  // Requests can hold prefixes that are nobody's else's, and so much of the budget with them that
  // none of these requests can ever begin: then the newest of them, taken out. Else null. For when
  // no request is running or can begin.
  OperationPtr pop_entangled();
  // What such a request is told.
  base::Error entangled_error(const Operation& operation) const noexcept;

  // The first of those that do not wait for whatever it takes, taken out; null if there is none: it
  // asked to wait for requests alone, or its promise went to another one. For when no request is
  // running or can begin.
  OperationPtr pop_stranded();
  // What such a request is told.
  base::Error stranded_error(const Operation& operation) const noexcept;

  // Takes back what was promised to the last that was promised anything. False: nobody was.
  bool take_back_last() noexcept;

  // Takes a request out and gives its reservation back.
  OperationPtr remove(Operation& operation);

  // Calls visit(OperationPtr) for every request past its deadline, each taken out as by remove().
  template <class Visit>
  void expire(TimePoint now, Visit&& visit) {
    if (!deadline_.passes(now)) return;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      Operation& operation = *it++;
      if (operation.is_past_deadline(now)) {
        visit(remove(operation));
      } else {
        deadline_.note(operation.terms.deadline);
      }
    }
  }

  // Calls visit(OperationPtr) for every request, each taken out as by remove().
  template <class Visit>
  void clear(Visit&& visit) {
    while (!waiting_.empty()) visit(remove(waiting_.back()));
  }
  // The same for an engine that has failed, in the order in which they would have begun.
  template <class Visit>
  void abandon(Visit&& visit) noexcept {
    let_go();
    while (!waiting_.empty()) {
      Operation& operation = waiting_.front();
      waiting_.pop_front();
      visit(OperationPtr(&operation, false));
    }
  }
  // Gives back what the requests hold of the engine; they are to be abandoned.
  void let_go() noexcept {
    for (Operation& operation : waiting_) {
      operation.reserved = false;
      operation.request.let_go();
    }
  }

  // Nothing in here expires before; unset: nothing ever does.
  const std::optional<TimePoint>& next_deadline() const noexcept { return deadline_.time(); }
  bool empty() const noexcept { return waiting_.empty(); }
  size_t size() const noexcept { return waiting_.size(); }

 private:
  OperationList::iterator place_of(const Operation& operation);
  bool reserve_at(OperationList::iterator place, Operation& operation);
  bool reserve(Operation& operation);
  bool is_sole_holder(const Operation& operation) const;
  size_t base_bytes(const Operation& operation) const;

  engine::BatchEngine& engine_;
  const size_t cache_budget_;
  OperationList waiting_;
  NextDeadline deadline_;
};

}  // namespace tinyloop::actors
