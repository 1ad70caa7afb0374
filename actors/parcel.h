// What leaves a replica's thread for a handler's executor: the completion of a request, or a chunk
// for a stream's reader. A parcel brings the memory for its way along, so that sending it from
// there can neither fail nor allocate.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>
#include <cstddef>

#include "actors/lane.h"

namespace tinyloop::actors {

struct CourierLane;  // tag

// Sent at most once at a time.
class Parcel : public LaneNode<CourierLane>,
               public boost::intrusive_ref_counter<Parcel, boost::thread_safe_counter> {
 public:
  Parcel() = default;
  Parcel(const Parcel&) = delete;
  Parcel& operator=(const Parcel&) = delete;
  virtual ~Parcel() = default;

  // Posts the parcel to its executor. May allocate and run the executor's own code, so never on a
  // replica's thread. An executor that cannot take it loses it.
  void post() noexcept;
  // The same on any thread: no allocation, and no code but Asio's. False, and nothing has happened,
  // if the executor is not simply an io_context's.
  bool post_in_place() noexcept;

 protected:
  // Before the parcel is sent, on the sender's own thread. `executor`: what executor() will give.
  void set_address(const boost::asio::any_io_executor& executor);

 private:
  class Envelope;
  template <class T>
  class Allocator;

  // Asio's queue entry: an operation, two words of ours, and what binds them.
  static constexpr size_t kBlockBytes = 96;

  virtual const boost::asio::any_io_executor& executor() const noexcept = 0;
  // On the executor: runs the handler. May throw what the handler throws.
  virtual void open() = 0;
  // Any thread: the executor will never run it. Destroys the handler.
  virtual void lose() noexcept = 0;

  boost::asio::io_context* context_ = nullptr;  // if the executor is simply its
  alignas(std::max_align_t) std::byte block_[kBlockBytes];
};

using ParcelPtr = boost::intrusive_ptr<Parcel>;

}  // namespace tinyloop::actors
