#include "engine/prefix_shape.h"

#include "engine/sequence_cache.h"

namespace tinyloop::engine {

int32_t PrefixShape::places() const {
  return pages_for(positions) - SequenceCache::entries_behind(positions, window);
}

PrefixBytes PrefixSizes::bytes_of(const PrefixShape& shape) const {
  const size_t unused = shape.resumes() ? coda_page : 0;
  return {.pages = size_t(shape.places()) * (place(shape.loops) - unused),
          .snapshots = snapshot_bytes(shape),
          .capacity = shape.resumes() ? capacity_of(shape) : 0};
}

// What a sequence needs to carry the whole of it on to its deepest and through the coda. A windowed
// one holds no more than a window and a chunk at a time, but the chunk is the scheduler's: the
// whole is reserved.
size_t PrefixSizes::capacity_of(const PrefixShape& shape) const {
  return size_t(pages_for(shape.positions)) *
         (coda_page + size_t(shape.max_loops - shape.loops) * loop_page);
}

size_t PrefixSizes::snapshot_bytes(const PrefixShape& shape) const {
  return size_t(shape.snapshot_rows()) * row * (keeps_injected(shape) ? 2 : 1);
}

}  // namespace tinyloop::engine
