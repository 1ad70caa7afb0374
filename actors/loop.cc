#include "actors/loop.h"

namespace tinyloop::actors {

void run(Loop& loop) noexcept {
  Waker& waker = loop.waker();
  for (;;) {
    const uint32_t epoch = waker.epoch();
    const Loop::Next next = loop.turn();
    if (next.kind == Loop::Next::end) return;
    if (next.kind == Loop::Next::sleep) waker.park(epoch, next.until);
  }
}

}  // namespace tinyloop::actors
