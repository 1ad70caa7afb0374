#include "actors/lease.h"

#include <utility>

#include "actors/inbox.h"

namespace tinyloop::actors {

LeaseRef Lease::make(std::shared_ptr<Inbox> inbox) {
  return {new Lease(std::move(inbox)), give_back};
}

void Lease::give_back(Lease* lease) noexcept {
  // The lane that it may be in ends with the inbox.
  const std::shared_ptr<Inbox> inbox = lease->inbox_;
  if (inbox->release(*lease)) return;
  // The replica is no more, and with it all it held. Its engine may have gone, too.
  if (lease->released) {
    lease->released->set({});
    lease->released->post();
  }
  delete lease;
}

void Lease::finish(Lease& lease) noexcept {
  if (lease.released) {
    lease.released->set({});
    lease.inbox_->courier->send(*lease.released);
  }
  delete &lease;
}

}  // namespace tinyloop::actors
