// The state of a computed prefix that outlives the sequence which computed it: pages, and a
// snapshot of the residual stream. What PrefixCache, ResumeHandle and the entries of a PrefixPool
// stand for. Immutable once filled; sequences that begin with it share its pages.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/prefix_shape.h"
#include "engine/sequence_cache.h"
#include "kernels/device_memory.h"
#include "kernels/row_view.h"

namespace tinyloop::engine {

// Replica thread.
class CachedPrefix {
 public:
  // Takes the snapshots' memory. Throws base::Failure(out_of_memory) where the device has not got
  // it.
  CachedPrefix(PrefixId id, const PrefixShape& shape, const PrefixSizes& sizes, KvCache& cache,
               kernels::DeviceMemory& memory);
  // Gives its pages back; the figures show it at once, whoever was the last user.
  ~CachedPrefix();
  CachedPrefix(const CachedPrefix&) = delete;
  CachedPrefix& operator=(const CachedPrefix&) = delete;

  // Takes part in the pages of the sequence that has computed it, and takes the capacity for
  // resuming out of what the sequence has reserved.
  void fill(SequenceCache& from);
  bool filled() const { return filled_; }

  PrefixId id() const { return id_; }
  const PrefixShape& shape() const { return shape_; }
  std::span<const PageTable> tables() const { return tables_; }

  // [snapshot_rows, d_model] f32.
  kernels::RowView residual() const { return rows(residual_); }
  // The same shape: e, where the model injects and the state is loop_rows.
  kernels::RowView injected() const { return rows(injected_); }

  // What is reserved for resuming; never null. Its bytes may be out on loan.
  const SharedReservation& capacity() const { return capacity_; }

 private:
  kernels::RowView rows(const kernels::DeviceBuffer& buffer) const;

  KvCache& cache_;
  const PrefixId id_;
  const PrefixShape shape_;
  const int32_t row_width_;
  const size_t capacity_bytes_;
  kernels::DeviceBuffer residual_, injected_;
  std::vector<PageTable> tables_;
  const SharedReservation capacity_ = std::make_shared<Reservation>();
  bool filled_ = false;
};

using CachedPrefixRef = std::shared_ptr<CachedPrefix>;

}  // namespace tinyloop::engine
