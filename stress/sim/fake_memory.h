// The memory of a simulated device. Small blocks are real ones; K/V slabs are addresses alone, and
// behind each place of a page stands what was stored there: so what is read can be judged.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "kernels/device_memory.h"
#include "kernels/kv_page.h"
#include "stress/sim/device.h"
#include "stress/sim/mathematics.h"

namespace tinyloop::sim {

// K and V of one position in one layer.
struct Cell {
  Word k = kPoison, v = kPoison;
  int32_t position = -1;
};

class FakeMemory final : public kernels::DeviceMemory {
 public:
  explicit FakeMemory(Device& device);
  ~FakeMemory() override;

  void copy_in(void* device, const void* host, size_t bytes) override;
  void copy_out(void* host, const void* device, size_t bytes) override;
  void copy(void* to_device, const void* from_device, size_t bytes) override;
  const void* stage(const void* host, size_t bytes) override;
  void begin_step() override { staged_.clear(); }
  void* share(size_t bytes) override;

  // The 16 cells of a layer's share of a page. A violation where there is no such memory.
  Cell* cells(const std::byte* share);
  void copy_page(const std::byte* from, std::byte* to, size_t bytes);

 private:
  void* do_allocate(size_t bytes) noexcept override;
  void do_release(void* block, size_t bytes) noexcept override;

  Device& device_;
  std::unordered_map<uint64_t, std::vector<Cell>> slabs_;  // by number; numbers are not used again
  uint64_t next_slab_ = 0;
  std::map<void*, size_t> blocks_;
  std::vector<std::vector<std::byte>> staged_, shared_;
};

}  // namespace tinyloop::sim
