// What copies of a PrefixCache or a ResumeHandle share.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "actors/lease.h"
#include "engine/request.h"
#include "tinyloop/reuse.h"

namespace tinyloop::actors {

class Handle {
 public:
  // Of a prefix that is going to be computed; the lease learns its number then.
  Handle(std::shared_ptr<Inbox> inbox, std::vector<int32_t> tokens,
         const engine::PrefixShape& shape, const engine::PrefixBytes& bytes);
  ~Handle() { give_up(take_lease()); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  // Constant; any thread.
  const std::vector<int32_t>& tokens() const noexcept { return tokens_; }
  const PrefixInfo& info() const noexcept { return info_; }
  engine::BaseTerms terms() const noexcept { return {tokens_, shape_}; }
  // Whose prefix it is.
  const std::shared_ptr<Inbox>& inbox() const noexcept { return inbox_; }

  // Any thread: what a request holds while it uses the prefix; null once it has been released.
  LeaseRef lease() const {
    const std::lock_guard lock(mutex_);
    return lease_;
  }
  // Any thread: the handle's own lease, for the caller to drop; null from the second call on.
  LeaseRef take_lease() noexcept {
    const std::lock_guard lock(mutex_);
    return std::exchange(lease_, nullptr);
  }
  // Drops what take_lease() gave. Rings the bell even if requests still hold it: who waits for
  // budget that the handle held must look at that anew.
  void give_up(LeaseRef lease) const noexcept;

 private:
  const std::shared_ptr<Inbox> inbox_;
  const std::vector<int32_t> tokens_;
  const engine::PrefixShape shape_;
  const PrefixInfo info_;
  mutable std::mutex mutex_;  // guards what follows; held for moments only
  LeaseRef lease_;
};

}  // namespace tinyloop::actors
