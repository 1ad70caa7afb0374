#include "actors/courier.h"

namespace tinyloop::actors {

void Courier::send(Parcel& parcel) noexcept {
  if (!parcel.post_in_place()) send_last(parcel);
}

void Courier::send_last(Parcel& parcel) noexcept {
  sent_.fetch_add(1);
  ParcelPtr held(&parcel);
  if (lane_.push(parcel)) {
    held.detach();
    waker_.wake();
  } else {  // the thread has ended, and with it every replica: this is a caller's thread
    parcel.post();
    posted_.fetch_add(1);
  }
}

void Courier::flush() const noexcept {
  const uint32_t target = sent_.load();
  for (uint32_t posted = posted_.load(); int32_t(target - posted) > 0; posted = posted_.load())
    posted_.wait(posted);
}

Loop::Next Courier::turn() noexcept {
  const auto carry = [this](Parcel& parcel) {
    ParcelPtr(&parcel, false)->post();
    posted_.fetch_add(1);
    posted_.notify_all();
  };
  if (closed_.load()) {
    lane_.close(carry);
    return {Next::end};
  }
  lane_.drain(carry);
  return {Next::sleep};
}

void Courier::close() noexcept {
  closed_.store(true);
  waker_.wake();
}

}  // namespace tinyloop::actors
