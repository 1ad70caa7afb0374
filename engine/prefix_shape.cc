#include "engine/prefix_shape.h"

#include "engine/sequence_cache.h"

namespace tinyloop::engine {

PrefixBytes PrefixSizes::bytes_of(const PrefixShape& shape) const {
  // Page places that are still in the window when the whole prefix has been computed.
  const int32_t places =
      pages_for(shape.positions) - SequenceCache::entries_behind(shape.positions, shape.window);
  const size_t place =
      prelude_page + (shape.resumes() ? 0 : coda_page) + size_t(shape.loops) * loop_page;
  return {.pages = size_t(places) * place,
          .snapshots = snapshot_bytes(shape),
          .capacity = shape.resumes() ? capacity_of(shape, shape.max_loops) : 0};
}

size_t PrefixSizes::capacity_of(const PrefixShape& shape, int32_t loops) const {
  return size_t(pages_for(shape.positions)) * (coda_page + size_t(loops - shape.loops) * loop_page);
}

size_t PrefixSizes::snapshot_bytes(const PrefixShape& shape) const {
  const size_t rows = size_t(shape.snapshot_rows()) * row;
  return shape.resumes() && injects ? 2 * rows : rows;
}

}  // namespace tinyloop::engine
