#include "engine/token_counts.h"

#include <string>

#include "base/error.h"

namespace tinyloop::engine {

namespace {

constexpr size_t kSlabLines = 16;

}  // namespace

TokenCounts::~TokenCounts() {
  if (!slabs_.empty()) ledger_.set_buffer(BufferId::token_counts, 0, 0);
}

TokenCounts::Line TokenCounts::take() {
  if (free_.empty()) grow();
  Line line(*this, free_.back());
  free_.pop_back();
  return line;
}

void TokenCounts::grow() {
  const size_t bytes = kSlabLines * vocab_ * sizeof(uint32_t);
  const size_t lines = (slabs_.size() + 1) * kSlabLines;
  free_.reserve(lines);
  slabs_.reserve(slabs_.size() + 1);
  kernels::DeviceBuffer slab(memory_, bytes, kernels::MemoryUse::buffers);
  if (!slab) {
    throw base::Failure(errc::out_of_memory,
                        std::string("buffer '") + to_string(BufferId::token_counts) +
                            "': " + std::to_string(bytes) + " bytes could not be allocated");
  }
  for (size_t line = kSlabLines; line-- > 0;) {
    free_.push_back(slab.as<uint32_t>() + line * vocab_);
  }
  slabs_.push_back(std::move(slab));
  ledger_.set_buffer(BufferId::token_counts, lines, lines * vocab_ * sizeof(uint32_t));
}

}  // namespace tinyloop::engine
