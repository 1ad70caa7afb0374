// Counts of tokens on the device, for requests whose penalties go by them: a line of the vocabulary
// for each (kernels/count_tokens.h). Slabs of lines are allocated as they are first needed and
// kept.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/memory_ledger.h"
#include "kernels/device_memory.h"

namespace tinyloop::engine {

class TokenCounts {
 public:
  // A line that is given back at the end of its life; it must not outlive the counts.
  class Line {
   public:
    Line() = default;
    Line(TokenCounts& owner, uint32_t* data) : owner_(&owner), data_(data) {}
    Line(Line&& other) noexcept { swap(other); }
    Line& operator=(Line&& other) noexcept {
      Line(std::move(other)).swap(*this);
      return *this;
    }
    ~Line() {
      if (data_) owner_->free_.push_back(data_);
    }
    // [vocab] in device memory, contents undefined at first; null: no line.
    uint32_t* data() const { return data_; }

   private:
    void swap(Line& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(data_, other.data_);
    }

    TokenCounts* owner_ = nullptr;
    uint32_t* data_ = nullptr;
  };

  TokenCounts(int32_t vocab, kernels::DeviceMemory& memory, MemoryLedger& ledger)
      : vocab_(size_t(vocab)), memory_(memory), ledger_(ledger) {}
  ~TokenCounts();

  // Throws base::Failure(out_of_memory) and std::bad_alloc.
  Line take();

 private:
  void grow();

  const size_t vocab_;
  kernels::DeviceMemory& memory_;
  MemoryLedger& ledger_;
  std::vector<kernels::DeviceBuffer> slabs_;
  std::vector<uint32_t*> free_;  // has room for every line there is
};

}  // namespace tinyloop::engine
