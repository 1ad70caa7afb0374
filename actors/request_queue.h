// The requests a replica has accepted and not begun, in the order in which it took them from its
// inbox. Replica thread only.
#pragma once

#include <optional>

#include "actors/operation.h"
#include "base/error.h"

namespace tinyloop::actors {

// A request in the queue either holds a reservation of its worst-case K/V bytes ("funded") or waits
// for one. The funded come first: once somebody waits for budget, nobody who comes later is funded
// before, so a large request is not starved by small ones.
class RequestQueue {
 public:
  // `engine` must outlive the queue.
  RequestQueue(engine::BatchEngine& engine, size_t cache_budget);
  ~RequestQueue();
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // Queues the operation and holds it alive, or says why not: out_of_memory if the budget could
  // never hold it, overloaded if it cannot now and the request does not wait.
  std::optional<base::Error> accept(Operation& operation);

  // The next request to begin, taken out; null if there is none, or none is funded. Its reservation
  // is the caller's.
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
  base::Error entangled_error(const Operation& operation) const;

  // The first of those that wait for requests alone, taken out; null if there is none. For when no
  // request is running or can begin.
  OperationPtr pop_stranded();
  // What such a request is told.
  base::Error stranded_error(const Operation& operation) const;

  // Takes a request out and gives its reservation back.
  OperationPtr remove(Operation& operation);

  // Calls visit(OperationPtr) for every request past its deadline, each taken out as by remove().
  template <class Visit>
  void expire(TimePoint now, Visit&& visit) {
    if (!next_deadline_ || *next_deadline_ > now) return;
    next_deadline_.reset();
    for (OperationList* list : {&funded_, &unfunded_}) {
      for (auto it = list->begin(); it != list->end();) {
        Operation& operation = *it++;
        if (operation.is_past_deadline(now)) {
          visit(remove(operation));
        } else {
          note_deadline(operation);
        }
      }
    }
  }

  // Calls visit(OperationPtr) for every request, each taken out as by remove().
  template <class Visit>
  void clear(Visit&& visit) {
    while (!unfunded_.empty()) visit(remove(unfunded_.back()));
    while (!funded_.empty()) visit(remove(funded_.back()));
  }
  // The same for an engine that has failed, in the order in which they came.
  template <class Visit>
  void abandon(Visit&& visit) noexcept {
    let_go();
    for (OperationList* list : {&funded_, &unfunded_}) {
      while (!list->empty()) {
        Operation& operation = list->front();
        list->pop_front();
        visit(OperationPtr(&operation, false));
      }
    }
  }
  // Gives back what the requests hold of the engine; they are to be abandoned.
  void let_go() noexcept {
    for (OperationList* list : {&funded_, &unfunded_}) {
      for (Operation& operation : *list) {
        operation.reserved = false;
        operation.request.let_go();
      }
    }
  }

  // Nothing in here expires before; unset: nothing ever does.
  const std::optional<TimePoint>& next_deadline() const noexcept { return next_deadline_; }
  bool empty() const noexcept { return funded_.empty() && unfunded_.empty(); }
  size_t size() const noexcept { return funded_.size() + unfunded_.size(); }

 private:
  bool reserve(Operation& operation);
  bool is_sole_holder(const Operation& operation) const;
  size_t base_bytes(const Operation& operation) const;
  void note_deadline(const Operation& operation);

  engine::BatchEngine& engine_;
  const size_t cache_budget_;
  OperationList funded_, unfunded_;
  std::optional<TimePoint> next_deadline_;  // nothing in the queue expires before
};

}  // namespace tinyloop::actors
