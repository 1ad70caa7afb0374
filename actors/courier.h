// Posts what the replicas' threads cannot post themselves: most executors allocate in a post, and
// an executor may be the caller's own code.
#pragma once

#include <atomic>
#include <cstdint>

#include "actors/lane.h"
#include "actors/loop.h"
#include "actors/parcel.h"

namespace tinyloop::actors {

// One an engine, with a thread that turns it. Not the thread of the handlers without executor:
// one of those may wait for a future that only a post elsewhere makes ready.
class Courier final : public Loop {
 public:
  Courier() = default;
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // Any thread, a replica's too: no lock, no allocation. A parcel for an io_context goes there
  // directly, any other by the courier's thread.
  void send(Parcel& parcel) noexcept;
  // The same, but always by the courier's thread: after all that was sent that way before.
  void send_last(Parcel& parcel) noexcept;

  // Waits until what was sent before has been posted. Not on the courier's thread.
  void flush() const noexcept;

  // Ends after close(), when everything has been posted.
  Next turn() noexcept override;
  Waker& waker() noexcept override { return waker_; }
  void close() noexcept;

 private:
  Lane<Parcel, CourierLane> lane_;
  Waker waker_;
  std::atomic<bool> closed_{false};
  std::atomic<uint32_t> sent_{0}, posted_{0};  // they wrap
};

}  // namespace tinyloop::actors
