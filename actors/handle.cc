#include "actors/handle.h"

#include <utility>

#include "actors/inbox.h"

namespace tinyloop::actors {

Handle::Handle(std::shared_ptr<Inbox> inbox, std::vector<int32_t> tokens,
               const engine::PrefixShape& shape, const engine::PrefixBytes& bytes)
    : inbox_(std::move(inbox)),
      tokens_(std::move(tokens)),
      shape_(shape),
      info_{.positions = shape.positions,
            .loops = shape.loops,
            .max_loops = shape.max_loops,
            .cache_window = shape.window,
            .page_bytes = bytes.pages,
            .snapshot_bytes = bytes.snapshots,
            .reserved_bytes = bytes.capacity},
      lease_(Lease::make(inbox_)) {}

void Handle::give_up(LeaseRef lease) const noexcept {
  if (!lease) return;
  lease.reset();
  inbox_->waker.wake();
}

}  // namespace tinyloop::actors

namespace tinyloop {

PrefixInfo ReuseHandle::info() const noexcept {
  return ref_ ? ref_->info() : PrefixInfo{};
}

std::span<const int32_t> ReuseHandle::tokens() const noexcept {
  if (!ref_) return {};
  return ref_->tokens();
}

}  // namespace tinyloop
