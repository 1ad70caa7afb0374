// Physical K/V pages of one size, with reference counts.
//
// Pages come in slabs taken from the device and stay there until trim(): acquiring and releasing
// pages in between costs no device call and no host allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device_memory.h"

namespace tinyloop::engine {

class PagePool {
 public:
  static constexpr int32_t kNoPage = -1;
  // Slabs hold as many pages as fit in this, and at least one.
  static constexpr size_t kSlabBytes = size_t{2} << 20;

  // page_bytes may be 0: a slot group without layers, from which nothing is ever acquired.
  PagePool(kernels::DeviceMemory& memory, size_t page_bytes);

  // A page with one reference and undefined contents; kNoPage when the device has no more memory.
  int32_t acquire();
  void retain(int32_t page);
  void release(int32_t page);
  int32_t references(int32_t page) const { return references_[size_t(page)]; }
  std::byte* address(int32_t page) const;

  size_t page_bytes() const { return page_bytes_; }
  size_t used() const { return used_; }
  size_t free() const { return free_.size(); }
  // Returns slabs without a referenced page to the device; the result is their bytes.
  size_t trim();

 private:
  bool grow();

  kernels::DeviceMemory& memory_;
  size_t page_bytes_;
  size_t pages_per_slab_;
  std::vector<kernels::DeviceBuffer> slabs_;  // empty buffers are free places
  std::vector<int32_t> references_;           // by page id
  std::vector<int32_t> free_;                 // last in, first out
  size_t used_ = 0;
};

}  // namespace tinyloop::engine
