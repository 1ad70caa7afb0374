// Where the reader of a stream waits and the writer finds it: at most one async_next at a time.
//
// The reader stores its completion, then what it waits for; the writer publishes tokens, then looks
// for a wait. Both are sequentially consistent, so one of the two sees the other; whoever takes the
// wait by an atomic exchange owns the completion. A wait has a number, so that a late cancel cannot
// hit the next one, and says how many tokens its reader has, so that it is not served with nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "tinyloop/detail/completion.h"

namespace tinyloop::actors {

class HandOver {
 public:
  using Completion = detail::Completion<StreamChunk>;

  // A number (from 1) and a count of tokens in one word. False: nobody waits.
  class Wait {
   public:
    Wait() = default;
    Wait(uint64_t number, size_t taken) : word_(number << 32 | uint32_t(taken)) {}
    explicit operator bool() const noexcept { return word_ != 0; }
    size_t taken() const noexcept { return uint32_t(word_); }

   private:
    friend class HandOver;
    uint64_t word_ = 0;
  };

  // Reader. False: a call is outstanding, or its handler has not been started yet.
  bool claim() noexcept { return !busy_.exchange(true); }
  // Whoever runs the handler: the reader may call again.
  void release() noexcept { busy_.store(false); }

  // Reader, after claim(), in this order.
  Wait next_wait(size_t taken) noexcept { return {++last_number_, taken}; }
  void offer(Completion completion, Wait wait) noexcept {
    completion_ = std::move(completion);
    waiting_.store(wait.word_);
  }

  // Any thread.
  Wait waiting() const noexcept {
    Wait wait;
    wait.word_ = waiting_.load();
    return wait;
  }
  // Any thread: the completion of this wait, or an empty one if it is over.
  Completion take(Wait wait) noexcept {
    if (!wait || !waiting_.compare_exchange_strong(wait.word_, 0)) return {};
    return std::move(completion_);
  }
  // Any thread: the completion of the present wait, if there is one.
  Completion take() noexcept {
    return waiting_.exchange(0) != 0 ? std::move(completion_) : Completion();
  }

 private:
  std::atomic<bool> busy_{false};
  std::atomic<uint64_t> waiting_{0};  // Wait::word_
  uint64_t last_number_ = 0;          // guarded by busy_
  Completion completion_;             // guarded by waiting_
};

}  // namespace tinyloop::actors
