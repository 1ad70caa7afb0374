// An executor that is no part of Asio, as a caller might write one: tests of what the library may
// take for granted.
#pragma once

#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <string>
#include <utility>

#include "tests/actors/served_model.h"

namespace tinyloop::testing {

// Passes its work on to a thread pool.
class PlainExecutor {
 public:
  explicit PlainExecutor(boost::asio::thread_pool& pool) : pool_(&pool) {}

  boost::asio::thread_pool& query(boost::asio::execution::context_t) const noexcept {
    return *pool_;
  }
  static constexpr boost::asio::execution::blocking_t query(
      boost::asio::execution::blocking_t) noexcept {
    return boost::asio::execution::blocking.never;
  }
  template <class Work>
  void execute(Work work) const {
    // It is the caller's code, so it must never run on a replica's thread.
    if (thread_name().starts_with("tinyloop-r")) std::abort();
    boost::asio::post(*pool_, std::move(work));
  }
  bool operator==(const PlainExecutor& other) const noexcept = default;

 private:
  boost::asio::thread_pool* pool_;
};

}  // namespace tinyloop::testing
