// An executor that says when something has been posted to it, and runs it only when told to: a
// cancel then finds a request whose outcome is decided and whose handler has not been started. It
// is no part of Asio, as a caller's own might be.
#pragma once

#include <atomic>
#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

namespace tinyloop::stress {

class ArrivalExecutor {
 public:
  // What it posts to. Shared: the poster may still be in execute() when the waiter goes on.
  struct Place {
    boost::asio::io_context io;
    std::atomic<bool> has_arrived{false};

    void wait() const { has_arrived.wait(false); }
    void run() { io.poll(); }
  };

  explicit ArrivalExecutor(std::shared_ptr<Place> place) : place_(std::move(place)) {}

  boost::asio::io_context& query(boost::asio::execution::context_t) const noexcept {
    return place_->io;
  }
  static constexpr boost::asio::execution::blocking_t query(
      boost::asio::execution::blocking_t) noexcept {
    return boost::asio::execution::blocking.never;
  }
  template <class Work>
  void execute(Work work) const {
    boost::asio::post(place_->io, std::move(work));
    place_->has_arrived.store(true);
    place_->has_arrived.notify_all();
  }
  bool operator==(const ArrivalExecutor& other) const noexcept = default;

 private:
  std::shared_ptr<Place> place_;
};

}  // namespace tinyloop::stress
