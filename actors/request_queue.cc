#include "actors/request_queue.h"

#include <algorithm>
#include <string>

namespace tinyloop::actors {

namespace {

std::string figures(const Operation& operation, size_t cache_budget) {
  return "the request needs " + std::to_string(operation.cache_bytes) + " bytes of K/V pages" +
         (operation.request.base ? ", its prefix included, for " : " for ") +
         std::to_string(operation.request.max_positions()) + " positions at " +
         std::to_string(operation.request.loops) + " loops, cache_budget_bytes is " +
         std::to_string(cache_budget);
}

}  // namespace

RequestQueue::RequestQueue(engine::BatchEngine& engine, size_t cache_budget)
    : engine_(engine), cache_budget_(cache_budget) {}

RequestQueue::~RequestQueue() {
  abandon([](const OperationPtr&) {});
}

std::optional<base::Error> RequestQueue::accept(Operation& operation) {
  operation.cache_bytes = engine_.cache_bytes(operation.request);
  if (!engine_.could_ever_fit(operation.cache_bytes)) {
    return base::Error{errc::out_of_memory, figures(operation, cache_budget_)};
  }
  const bool funded = unfunded_.empty() && reserve(operation);
  if (!funded && operation.terms.when_full == WhenFull::fail) {
    return base::Error{errc::overloaded, figures(operation, cache_budget_) +
                                             ", too much of it is promised to others; " +
                                             std::to_string(size()) + " requests are queued"};
  }
  operation.phase = Phase::queued;
  (funded ? funded_ : unfunded_).push_back(*OperationPtr(&operation).detach());
  note_deadline(operation);
  return std::nullopt;
}

OperationPtr RequestQueue::pop() {
  if (funded_.empty() && !unfunded_.empty() && reserve(unfunded_.front())) {
    funded_.splice(funded_.end(), unfunded_, unfunded_.begin());
  }
  if (funded_.empty()) return nullptr;
  Operation& operation = funded_.front();
  funded_.pop_front();
  return {&operation, false};
}

OperationPtr RequestQueue::pop_holder() {
  for (Operation& operation : unfunded_) {
    if (!operation.request.base || !reserve(operation)) continue;
    unfunded_.erase(unfunded_.iterator_to(operation));
    return {&operation, false};
  }
  return nullptr;
}

OperationPtr RequestQueue::pop_entangled() {
  Operation* newest = nullptr;
  size_t held = 0;                   // by such prefixes
  size_t least_own = cache_budget_;  // that such a request takes beside its prefix
  for (auto it = unfunded_.begin(); it != unfunded_.end(); ++it) {
    if (!it->request.base || !is_sole_holder(*it)) continue;
    newest = &*it;
    const size_t bytes = base_bytes(*it);
    const bool counted = std::any_of(unfunded_.begin(), it, [&](const Operation& earlier) {
      return earlier.request.base == it->request.base;
    });
    if (!counted) held += bytes;
    least_own = std::min(least_own, it->cache_bytes - std::min(it->cache_bytes, bytes));
  }
  return newest && held + least_own > cache_budget_ ? remove(*newest) : nullptr;
}

base::Error RequestQueue::entangled_error(const Operation& operation) const {
  return {errc::out_of_memory, figures(operation, cache_budget_) +
                                   ", prefixes that other waiting requests hold take the rest"};
}

// Whether no handle and no pool refers to its prefix, nor anybody who runs.
bool RequestQueue::is_sole_holder(const Operation& operation) const {
  const auto same = [&](const Operation& other) {
    return operation.base ? other.base == operation.base
                          : other.request.base == operation.request.base;
  };
  const auto users = std::count_if(unfunded_.begin(), unfunded_.end(), same);
  return (operation.base ? operation.base.use_count() : operation.request.base.use_count()) ==
         users;
}

// Of the budget, that its prefix takes.
size_t RequestQueue::base_bytes(const Operation& operation) const {
  const engine::PrefixBytes bytes =
      engine_.prefix_sizes().bytes_of(operation.request.base->shape());
  return bytes.pages + bytes.capacity;
}

OperationPtr RequestQueue::pop_stranded() {
  for (Operation& operation : unfunded_) {
    if (operation.terms.when_full == WhenFull::wait_for_requests) return remove(operation);
  }
  return nullptr;
}

base::Error RequestQueue::stranded_error(const Operation& operation) const {
  return {errc::out_of_memory, figures(operation, cache_budget_) + ", reuse handles hold the rest"};
}

OperationPtr RequestQueue::remove(Operation& operation) {
  OperationList& list = operation.reserved ? funded_ : unfunded_;
  list.erase(list.iterator_to(operation));
  operation.reserved = false;
  operation.request.let_go();
  return {&operation, false};
}

bool RequestQueue::reserve(Operation& operation) {
  return operation.reserved = engine_.try_reserve(operation.request);
}

void RequestQueue::note_deadline(const Operation& operation) {
  if (!operation.terms.deadline) return;
  next_deadline_ =
      std::min(next_deadline_.value_or(*operation.terms.deadline), *operation.terms.deadline);
}

}  // namespace tinyloop::actors
