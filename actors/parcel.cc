#include "actors/parcel.h"

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <new>
#include <utility>

namespace tinyloop::actors {

namespace asio = boost::asio;

// What the executor holds.
class Parcel::Envelope {
 public:
  explicit Envelope(Parcel& parcel) noexcept : parcel_(&parcel) {}
  Envelope(Envelope&&) noexcept = default;
  Envelope& operator=(Envelope&&) = delete;
  ~Envelope() {
    if (parcel_) parcel_->lose();
  }
  void operator()() {
    const ParcelPtr parcel = std::move(parcel_);
    parcel->open();
  }

 private:
  ParcelPtr parcel_;
};

// Gives out the parcel's own block. Asio frees it before it calls the envelope, so the handler may
// already send the parcel again.
template <class T>
class Parcel::Allocator {
 public:
  using value_type = T;

  explicit Allocator(std::byte* block) noexcept : block_(block) {}
  template <class U>
  Allocator(const Allocator<U>& other) noexcept : block_(other.block()) {}  // NOLINT

  T* allocate(size_t) noexcept {
    static_assert(sizeof(T) <= kBlockBytes && alignof(T) <= alignof(std::max_align_t));
    return reinterpret_cast<T*>(block_);
  }
  void deallocate(T*, size_t) noexcept {}
  std::byte* block() const noexcept { return block_; }
  template <class U>
  bool operator==(const Allocator<U>& other) const noexcept {
    return block_ == other.block();
  }

 private:
  std::byte* block_;
};

void Parcel::post() noexcept {
  try {
    auto to = executor();
    asio::post(to, Envelope(*this));
  } catch (...) {
    // The envelope has lost the parcel.
  }
}

bool Parcel::post_in_place() noexcept {
  if (!context_) return false;
  // run() must not return, and its owner end the context, while this call is still in it.
  const auto work = asio::make_work_guard(*context_);
  asio::post(context_->get_executor(),
             asio::bind_allocator(Allocator<std::byte>(block_), Envelope(*this)));
  return true;
}

void Parcel::set_address(const asio::any_io_executor& executor) {
  const asio::any_io_executor plain =
      asio::prefer(executor, asio::execution::outstanding_work.untracked);
  context_ = nullptr;
  if (plain.target<asio::io_context::executor_type>())
    context_ = &static_cast<asio::io_context&>(asio::query(plain, asio::execution::context));
}

}  // namespace tinyloop::actors
