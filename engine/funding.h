// What pays for a sequence's pages: a reservation of its own, part of which may be on loan from the
// capacity of the prefix that it resumes.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "engine/reservation.h"

namespace tinyloop::engine {

using SharedReservation = std::shared_ptr<Reservation>;

// Replica thread. Movable. Ends by giving everything back to whom it belongs; by then the pages
// must have been released to it.
class Funding {
 public:
  Funding() = default;
  Funding(Funding&& other) noexcept
      : pages(std::move(other.pages)),
        lender_(std::move(other.lender_)),
        loan_(std::exchange(other.loan_, 0)) {}
  Funding& operator=(Funding&& other) noexcept {
    Funding moved(std::move(other));
    std::swap(pages, moved.pages);
    std::swap(lender_, moved.lender_);
    std::swap(loan_, moved.loan_);
    return *this;
  }
  ~Funding() {
    if (lender_ && loan_ <= pages.bytes()) lender_->absorb(pages.split(loan_));
  }

  // Takes `bytes` on loan; nothing where the lender has not got so many at the moment.
  void borrow(const SharedReservation& lender, size_t bytes) {
    if (lender->bytes() < bytes) return;
    pages.absorb(lender->split(bytes));
    lender_ = lender;
    loan_ = bytes;
  }

  Reservation pages;

 private:
  SharedReservation lender_;
  size_t loan_ = 0;  // of `pages`
};

}  // namespace tinyloop::engine
