// Snapshots a model gives of itself. Taking one is cheap, never blocks the replica, and is allowed
// from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tinyloop/detail/export.h"

namespace tinyloop {

// Bytes the replica's allocator has handed out, by use. `total()` equals the allocator's own count
// to the byte, and returns to its value before the load once the model and its requests are gone.
struct MemoryReport {
  size_t weights = 0;            // quantised weights and head, as they lie on the device
  size_t fp16_weight_cache = 0;  // FP16 copies of matrices: mode fast alone
  size_t buffers = 0;    // buffer pool: main, norm, scratch1, attn_down, logits, rope tables, and
                         // what biases, penalties and min_tokens need, once a request has them
  size_t workspace = 0;  // work space of libraries and kernels
  size_t arena = 0;      // slabs of K/V pages
  size_t handles = 0;    // snapshots of the residual stream, of reuse handles and pool entries;
                         // their pages are in `arena`

  struct Buffer {
    std::string name;  // "main", "norm", "scratch1", "attn_down", "logits", …
    size_t rows = 0;
    size_t bytes = 0;
  };
  std::vector<Buffer> buffer_list;  // what `buffers` consists of

  size_t pages_used = 0;  // pages referenced by requests, handles and pools; shared ones once
  size_t pages_free = 0;  // pages in slabs that nobody references; trim() returns whole slabs
  size_t page_bytes_used = 0;
  size_t page_bytes_free = 0;
  size_t cache_budget = 0;    // ModelOptions::cache_budget_bytes
  size_t cache_reserved = 0;  // spoken for: page_bytes_used, and what is promised to requests
                              // (ModelOptions::reserve_tokens) and for resuming, and not bound yet

  size_t total() const {
    return weights + fp16_weight_cache + buffers + workspace + arena + handles;
  }
  // Device bytes owned by the model: all but what requests and handles hold, which is reported
  // beside it.
  size_t model_bytes() const { return total() - arena - handles; }
};

enum class ReplicaState : uint8_t {
  loading,
  serving,
  draining,  // finishes what it has accepted
  drained,   // has given its memory back; can be loaded again
  failed,
  closed,
};
TINYLOOP_API const char* to_string(ReplicaState state) noexcept;

struct HealthReport {
  struct Replica {
    ReplicaState state = ReplicaState::loading;
    bool can_serve = false;
    std::string device;           // "cpu (AVX3, int8, 2 threads)"
    std::string last_error;       // empty: none so far
    size_t queued = 0;            // accepted, not begun
    size_t active = 0;            // begun, not complete
    size_t free_cache_bytes = 0;  // cache_budget less cache_reserved
    uint64_t out_of_memory = 0;   // requests failed for want of memory
    uint64_t failures = 0;        // internal errors
  };
  std::vector<Replica> replicas;
  std::string cuda;  // "not built in", or what the driver says
};

// Counters since the load. `accepted` = every `completed_*` + queued + active, at rest.
struct Statistics {
  uint64_t accepted = 0;
  uint64_t rejected = 0;      // invalid, overloaded, out_of_memory, shutdown: never accepted
  uint64_t completed_ok = 0;  // eos, stop sequence, max_tokens
  uint64_t completed_cancelled = 0;
  uint64_t completed_deadline = 0;
  uint64_t completed_failed = 0;
  uint64_t passes = 0;         // steps of the replica: passes of the shared block
  uint64_t block_rows = 0;     // rows that went through the shared block, over all passes
  uint64_t prompt_tokens = 0;  // rows that entered as prompt, or to be computed again
  uint64_t generated_tokens = 0;
  uint64_t preemptions = 0;  // requests that made room for older ones, and began again

  // GPU, where activations are FP16: finds of numbers beyond its range, which were stored as its
  // largest, 65,504. Most kernels store pairs of numbers and count one for a thread that had any;
  // the rest count each number. So 0 means that nothing was cut, and more than 0 that something
  // was, perhaps more often than that. Numbers between 65,504 and 65,520, which rounding alone
  // takes back, count where they are stored one by one. Weights cut at load are not counted.
  uint64_t saturated_values = 0;
  // GPU: times the host started something there: a kernel, a graph of kernels, or, in mode fast, a
  // product by cuBLAS. Copies are not counted. 0 on the CPU.
  uint64_t device_launches = 0;
};

}  // namespace tinyloop
