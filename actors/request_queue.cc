#include "actors/request_queue.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "actors/error.h"

namespace tinyloop::actors {

namespace {

std::string of_the_budget(const Operation& operation, size_t bytes, const char* what,
                          size_t cache_budget) {
  return "the request needs " + std::to_string(bytes) + " bytes of K/V pages" +
         (operation.request.base ? ", its prefix included, " : " ") + what + ", for " +
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
  const size_t most = engine_.cache_bytes(operation.request);
  if (!engine_.could_ever_fit(most)) {
    return base::Error{errc::out_of_memory,
                       of_the_budget(operation, most, "in all", cache_budget_)};
  }
  const auto place = place_of(operation);
  const bool funded = reserve_at(place, operation);
  if (!funded && operation.terms.when_full == WhenFull::fail) {
    const size_t first = engine_.admission_bytes(operation.request);
    return base::Error{errc::overloaded,
                       of_the_budget(operation, first, "to begin", cache_budget_) +
                           ", too much of it is promised to others; " + std::to_string(size()) +
                           " requests are queued"};
  }
  operation.phase = Phase::queued;
  waiting_.insert(place, *OperationPtr(&operation).detach());
  deadline_.note(operation.terms.deadline);
  return std::nullopt;
}

// Behind all that go before it, and behind its equals.
OperationList::iterator RequestQueue::place_of(const Operation& operation) {
  auto place = waiting_.end();
  while (place != waiting_.begin() && std::prev(place)->request.rank > operation.request.rank) {
    --place;
  }
  return place;
}

// Those behind give back what they were promised, the last one first: all of it, if even that does
// not do and the request is going to stand before them.
bool RequestQueue::reserve_at(OperationList::iterator place, Operation& operation) {
  if (!engine_.may_have_budget(operation.request.rank)) return false;
  if (place != waiting_.begin() && !std::prev(place)->reserved) return false;
  if (reserve(operation)) return true;
  bool funded = false;
  auto last = waiting_.end();
  while (!funded && last != place) {
    --last;
    if (!last->reserved) continue;
    last->reserved = false;
    last->request.funding = {};
    funded = reserve(operation);
  }
  if (!funded && operation.terms.when_full != WhenFull::fail) return false;
  // What is left of it goes to them again, as far as it goes.
  for (; last != waiting_.end(); ++last) {
    if (!last->reserved && !reserve(*last)) break;
  }
  return funded;
}

OperationPtr RequestQueue::pop() {
  if (waiting_.empty()) return nullptr;
  Operation& operation = waiting_.front();
  if (!engine_.has_room(operation.request.rank)) return nullptr;
  if (!operation.reserved && !reserve(operation)) return nullptr;
  waiting_.pop_front();
  return {&operation, false};
}

OperationPtr RequestQueue::pop_holder() {
  for (Operation& operation : waiting_) {
    if (!operation.request.base || !reserve(operation)) continue;
    waiting_.erase(waiting_.iterator_to(operation));
    return {&operation, false};
  }
  return nullptr;
}

OperationPtr RequestQueue::pop_entangled() {
  Operation* newest = nullptr;
  size_t held = 0;                   // by such prefixes
  size_t least_own = cache_budget_;  // that such a request takes beside its prefix
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (!it->request.base || !is_sole_holder(*it)) continue;
    newest = &*it;
    const size_t bytes = base_bytes(*it);
    const bool counted = std::any_of(waiting_.begin(), it, [&](const Operation& earlier) {
      return earlier.request.base == it->request.base;
    });
    if (!counted) held += bytes;
    const size_t first = engine_.admission_bytes(it->request);
    least_own = std::min(least_own, first - std::min(first, bytes));
  }
  return newest && held + least_own > cache_budget_ ? remove(*newest) : nullptr;
}

base::Error RequestQueue::entangled_error(const Operation& operation) const noexcept {
  return with_sentence(errc::out_of_memory, [&] {
    return of_the_budget(operation, engine_.admission_bytes(operation.request), "to begin",
                         cache_budget_) +
           ", prefixes that other waiting requests hold take the rest";
  });
}

// Whether no handle and no pool refers to its prefix, nor anybody who runs.
bool RequestQueue::is_sole_holder(const Operation& operation) const {
  const auto same = [&](const Operation& other) {
    return operation.base ? other.base == operation.base
                          : other.request.base == operation.request.base;
  };
  const auto users = std::count_if(waiting_.begin(), waiting_.end(), same);
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
  for (Operation& operation : waiting_) {
    if (operation.reserved) continue;
    if (operation.terms.when_full != WhenFull::wait) return remove(operation);
  }
  return nullptr;
}

base::Error RequestQueue::stranded_error(const Operation& operation) const noexcept {
  const bool fails = operation.terms.when_full == WhenFull::fail;
  return with_sentence(fails ? errc::overloaded : errc::out_of_memory, [&] {
    return of_the_budget(operation, engine_.admission_bytes(operation.request), "to begin",
                         cache_budget_) +
           ", reuse handles hold the rest";
  });
}

bool RequestQueue::take_back_last() noexcept {
  for (auto it = waiting_.rbegin(); it != waiting_.rend(); ++it) {
    if (!it->reserved) continue;
    it->reserved = false;
    it->request.funding = {};
    return true;
  }
  return false;
}

OperationPtr RequestQueue::remove(Operation& operation) {
  waiting_.erase(waiting_.iterator_to(operation));
  operation.reserved = false;
  operation.request.let_go();
  return {&operation, false};
}

bool RequestQueue::reserve(Operation& operation) {
  return operation.reserved = engine_.try_reserve(operation.request);
}

}  // namespace tinyloop::actors
