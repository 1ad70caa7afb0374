// A trim of all replicas of a model: the last one that has answered completes it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "actors/reply.h"

namespace tinyloop::actors {

class TrimCall {
 public:
  TrimCall(ReplyPtr<size_t> reply, size_t replicas) : reply_(std::move(reply)), left_(replicas) {}

  // Any thread, once for each replica. The reply, for the caller to send, from the last call: with
  // the first error if no replica could be trimmed, else with the bytes of those that could.
  ReplyPtr<size_t> answered(error_code error, size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (!error) {
      any_ = true;
      bytes_ += bytes;
    } else if (!error_) {
      error_ = error;
    }
    if (--left_ > 0) return nullptr;
    reply_->set(any_ ? error_code() : error_, bytes_);
    return std::move(reply_);
  }

 private:
  std::mutex mutex_;  // guards what follows; held for moments only
  ReplyPtr<size_t> reply_;
  size_t left_;
  size_t bytes_ = 0;
  bool any_ = false;
  error_code error_;
};

}  // namespace tinyloop::actors
