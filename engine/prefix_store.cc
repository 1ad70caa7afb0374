#include "engine/prefix_store.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace tinyloop::engine {

CachedPrefixRef PrefixStore::create(const PrefixShape& shape) {
  std::erase_if(all_, [](const auto& entry) { return entry.second.prefix.expired(); });
  check_limits(shape);
  const PrefixId id = next_id_;
  auto prefix = std::make_shared<CachedPrefix>(id, shape, sizes_, cache_, memory_);
  all_.emplace(id, Entry{prefix, nullptr});
  ++next_id_;
  return prefix;
}

void PrefixStore::check_limits(const PrefixShape& shape) const {
  const size_t wanted = sizes_.bytes_of(shape).total();
  if (limits_.bytes > 0 && wanted > limits_.bytes) {
    throw base::Failure(errc::out_of_memory, "the prefix takes " + std::to_string(wanted) +
                                                 " bytes, handle_budget_bytes is " +
                                                 std::to_string(limits_.bytes));
  }
  const HandleExcess over = excess(shape);
  if (over.count > 0) {
    throw base::Failure(errc::overloaded, std::to_string(alive()) +
                                              " handles are alive, max_handles is " +
                                              std::to_string(limits_.count));
  }
  if (over.bytes > 0) {
    throw base::Failure(errc::overloaded, "handles hold " + std::to_string(bytes_held()) +
                                              " bytes of " + std::to_string(limits_.bytes) +
                                              " (handle_budget_bytes), the prefix takes " +
                                              std::to_string(wanted));
  }
}

HandleExcess PrefixStore::excess(const PrefixShape& shape) const {
  HandleExcess over;
  const size_t count = alive() + 1;
  over.count = count - std::min(count, limits_.count);
  if (limits_.bytes > 0) {
    const size_t bytes = bytes_held() + sizes_.bytes_of(shape).total();
    over.bytes = bytes - std::min(bytes, limits_.bytes);
  }
  return over;
}

size_t PrefixStore::alive() const {
  return size_t(std::count_if(all_.begin(), all_.end(),
                              [](const auto& each) { return !each.second.prefix.expired(); }));
}

size_t PrefixStore::bytes_held() const {
  size_t held = 0;
  for (const auto& [id, entry] : all_) {
    if (const auto prefix = entry.prefix.lock()) held += sizes_.bytes_of(prefix->shape()).total();
  }
  return held;
}

void PrefixStore::hold(const CachedPrefixRef& prefix) {
  all_.at(prefix->id()).held = prefix;
}

void PrefixStore::drop(PrefixId id) {
  const auto found = all_.find(id);
  if (found != all_.end()) found->second.held.reset();
}

void PrefixStore::drop_all() noexcept {
  for (auto& [id, entry] : all_) entry.held.reset();
}

CachedPrefixRef PrefixStore::find(PrefixId id) const {
  const auto found = all_.find(id);
  return found == all_.end() ? nullptr : found->second.prefix.lock();
}

}  // namespace tinyloop::engine
