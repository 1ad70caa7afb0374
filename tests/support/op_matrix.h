// Device data of the op tests. Every place that an op has no business with holds a NaN of a known
// pattern: reading one shows in the results, writing one is found by untouched().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/op_random.h"

namespace tinyloop::testing {

float poison();

// A host array copied to the device; lives as long as the object.
template <class T>
class DeviceArray {
 public:
  DeviceArray(kernels::Backend& backend, std::span<const T> values)
      : memory_(&backend.memory()),
        count_(values.size()),
        buffer_(*memory_, std::max<size_t>(values.size_bytes(), 1), kernels::MemoryUse::buffers) {
    memory_->copy_in(buffer_.data(), values.data(), values.size_bytes());
  }
  T* data() const { return buffer_.template as<T>(); }
  std::vector<T> read() const {
    std::vector<T> out(count_);
    memory_->copy_out(out.data(), data(), count_ * sizeof(T));
    return out;
  }

 private:
  kernels::DeviceMemory* memory_;
  size_t count_;
  kernels::DeviceBuffer buffer_;
};

// Where the rows of an OpMatrix lie: one after another, or scattered behind an index array with
// unused lines and columns between them.
enum class RowLayout { dense, scattered };

// [rows, cols] f32 or f16 on a device, poisoned where nothing was put.
class OpMatrix {
 public:
  OpMatrix(kernels::Backend& backend, int32_t rows, int32_t cols, RowLayout layout,
           OpRandom& random, kernels::ScalarType type = kernels::ScalarType::f32);
  // The same, holding values[rows][cols], rounded to the type.
  OpMatrix(kernels::Backend& backend, int32_t rows, int32_t cols, RowLayout layout,
           OpRandom& random, std::span<const float> values,
           kernels::ScalarType type = kernels::ScalarType::f32);

  kernels::RowView view() const;
  std::vector<float> values() const;  // [rows][cols], read from the device
  // [rows][cols / 32], where the rows have been made q8 rows (view().as_q8()).
  std::vector<kernels::QuantisedBlock> blocks() const;
  bool untouched() const;  // all places outside the rows still hold the poison

 private:
  size_t place(int32_t row) const;  // of its first byte
  std::vector<std::byte> initial(std::span<const float> values) const;

  kernels::Backend& backend_;
  kernels::ScalarType type_;
  int32_t rows_, cols_, stride_, line_count_;
  RowLayout layout_;
  std::vector<int32_t> lines_;  // [rows] line of each row
  DeviceArray<int32_t> index_;
  DeviceArray<std::byte> data_;
};

}  // namespace tinyloop::testing
