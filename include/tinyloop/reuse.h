// Handles of state that a model keeps: what has been computed once need not be computed again.
// docs/reuse.md says which handle pays when.
//
//   PrefixCache    a prefix at one depth, continued by many requests
//   ResumeHandle   a prefix at a small depth, carried on to greater ones
//   PrefixPool     many prefixes, the longest of which serves (tinyloop/prefix_pool.h)
//
// They are made by Model::async_build_prefix and the like and used through GenerateRequest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "tinyloop/detail/export.h"

namespace tinyloop {

namespace actors {
class Handle;
}

namespace detail {
using HandleRef = std::shared_ptr<actors::Handle>;
}

// What a handle stands for; constant. The bytes are those of the model's memory report. K/V bytes =
// page places of 16 positions × slots × bytes of 16 positions in one slot, where slots are the
// executed attention layers: prelude + coda + shared · loops, for a ResumeHandle without the coda.
struct PrefixInfo {
  int32_t positions = 0;
  int32_t loops = 0;          // depth that it has been computed to
  int32_t max_loops = 0;      // deepest that it can be resumed to; a PrefixCache's own `loops`
  int32_t cache_window = 0;   // 0: unbounded
  size_t page_bytes = 0;      // K/V pages, those shared with other handles too
  size_t snapshot_bytes = 0;  // of the residual stream
  size_t reserved_bytes = 0;  // of the K/V budget, for resuming

  size_t bytes() const { return page_bytes + snapshot_bytes + reserved_bytes; }
};

// A reference to state that a replica owns. Copies refer to the same state; the last one, or
// Model::async_release, gives its memory back, once the requests in flight that use it have ended.
// Any thread may copy, use and drop one, also after the model or the engine has gone; like a
// shared_ptr, one object is not to be assigned while another thread reads it. Dropping is noexcept
// and does not wait.
class TINYLOOP_API ReuseHandle {
 public:
  explicit operator bool() const noexcept { return ref_ != nullptr; }
  // Of an empty handle: nothing.
  PrefixInfo info() const noexcept;
  // The prefix's tokens; valid as long as a handle refers to them.
  std::span<const int32_t> tokens() const noexcept;

  // For the library's own parts.
  const detail::HandleRef& ref() const noexcept { return ref_; }

 protected:
  ReuseHandle() = default;
  explicit ReuseHandle(detail::HandleRef ref) noexcept : ref_(std::move(ref)) {}

 private:
  detail::HandleRef ref_;
};

// A prefix at one depth. Requests with it continue behind its last token, as if it had been the
// beginning of their prompt, to the bit. It is never modified: any number may use it at once; each
// costs the pages of its own tokens, and one copy of the last page where that is not full.
class TINYLOOP_API PrefixCache : public ReuseHandle {
 public:
  PrefixCache() = default;
  explicit PrefixCache(detail::HandleRef ref) noexcept : ReuseHandle(std::move(ref)) {}
};

// A prefix at a depth from which deeper ones are reached without what has been computed: a request
// with it runs the iterations that are missing, and the coda, for the whole prefix, then goes on.
// It is never modified. What one resume at a time computes for the prefix is paid from
// reserved_bytes and so always finds its pages; new tokens, and other resumes beside it, need room
// in the K/V budget.
class TINYLOOP_API ResumeHandle : public ReuseHandle {
 public:
  ResumeHandle() = default;
  explicit ResumeHandle(detail::HandleRef ref) noexcept : ReuseHandle(std::move(ref)) {}
};

}  // namespace tinyloop
