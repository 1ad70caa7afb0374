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

void PrefixStore::check_limits(const PrefixShape& shape) {
  const size_t wanted = sizes_.bytes_of(shape).total();
  if (limits_.bytes > 0 && wanted > limits_.bytes) {
    throw base::Failure(errc::out_of_memory, "the prefix takes " + std::to_string(wanted) +
                                                 " bytes, handle_budget_bytes is " +
                                                 std::to_string(limits_.bytes));
  }
  if (all_.size() >= limits_.count) {
    throw base::Failure(errc::overloaded, std::to_string(all_.size()) +
                                              " handles are alive, max_handles is " +
                                              std::to_string(limits_.count));
  }
  if (limits_.bytes == 0) return;
  size_t held = 0;
  for (const auto& [id, entry] : all_) {
    if (const auto prefix = entry.prefix.lock()) held += sizes_.bytes_of(prefix->shape()).total();
  }
  if (wanted <= limits_.bytes - std::min(held, limits_.bytes)) return;
  throw base::Failure(errc::overloaded, "handles hold " + std::to_string(held) + " bytes of " +
                                            std::to_string(limits_.bytes) +
                                            " (handle_budget_bytes), the prefix takes " +
                                            std::to_string(wanted));
}

void PrefixStore::hold(const CachedPrefixRef& prefix) {
  all_.at(prefix->id()).held = prefix;
}

void PrefixStore::drop(PrefixId id) {
  const auto found = all_.find(id);
  if (found != all_.end()) found->second.held.reset();
}

CachedPrefixRef PrefixStore::find(PrefixId id) const {
  const auto found = all_.find(id);
  return found == all_.end() ? nullptr : found->second.prefix.lock();
}

}  // namespace tinyloop::engine
