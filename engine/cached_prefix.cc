#include "engine/cached_prefix.h"

#include <string>

#include "base/check.h"

namespace tinyloop::engine {

namespace {

kernels::DeviceBuffer take(kernels::DeviceMemory& memory, size_t bytes) {
  kernels::DeviceBuffer buffer(memory, bytes, kernels::MemoryUse::handles);
  if (buffer) return buffer;
  throw base::Failure(errc::out_of_memory, "residual snapshot: " + std::to_string(bytes) +
                                               " bytes could not be allocated");
}

}  // namespace

CachedPrefix::CachedPrefix(PrefixId id, const PrefixShape& shape, const PrefixSizes& sizes,
                           KvCache& cache, kernels::DeviceMemory& memory)
    : cache_(cache),
      id_(id),
      shape_(shape),
      row_width_(int32_t(sizes.row / sizeof(float))),
      capacity_bytes_(sizes.bytes_of(shape).capacity) {
  const size_t bytes = size_t(shape.snapshot_rows()) * sizes.row;
  residual_ = take(memory, bytes);
  if (sizes.keeps_injected(shape)) injected_ = take(memory, bytes);
  tables_.reserve(size_t(kFirstLoopGroup + shape_.loops));
  for (int32_t group = 0; group < kFirstLoopGroup + shape_.loops; ++group) {
    if (group == kCodaGroup && shape_.resumes()) continue;
    tables_.emplace_back(cache, group).reserve(pages_for(shape_.positions));
  }
}

CachedPrefix::~CachedPrefix() {
  tables_.clear();
  cache_.publish();
}

void CachedPrefix::fill(SequenceCache& from) {
  TINYLOOP_CHECK(!filled_);
  for (PageTable& table : tables_) {
    table.share(from.table(table.group()), pages_for(shape_.positions));
  }
  *capacity_ = from.funding().pages.split(capacity_bytes_);
  filled_ = true;
}

kernels::RowView CachedPrefix::rows(const kernels::DeviceBuffer& buffer) const {
  return {buffer.data(), kernels::ScalarType::f32, row_width_, nullptr};
}

}  // namespace tinyloop::engine
