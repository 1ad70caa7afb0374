// What a cached prefix is, and what it takes: values that any thread may compute with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tinyloop::engine {

using PrefixId = uint64_t;  // from 1; never used twice in a replica

// What is kept beside the pages.
enum class PrefixState : uint8_t {
  final_row,  // the last position's residual behind the coda: its logits are the head's work alone
  loop_rows,  // every position's residual behind the last iteration (and e), before the coda, so
              // that further iterations can follow. No pages of the coda: they depend on the depth
};

struct PrefixShape {
  int32_t positions = 0;
  int32_t loops = 1;  // iterations behind them
  int32_t window = 0;
  PrefixState state = PrefixState::final_row;
  int32_t max_loops = 1;  // loop_rows: the deepest that capacity is reserved for

  bool resumes() const { return state == PrefixState::loop_rows; }
  int32_t snapshot_rows() const { return resumes() ? positions : 1; }
  // Page places that are still in the window when all of it has been computed.
  int32_t places() const;
};

struct PrefixBytes {
  size_t pages = 0;      // shared ones as well
  size_t snapshots = 0;  // of the residual stream
  size_t capacity = 0;   // reserved for resuming, no pages yet

  size_t total() const { return pages + snapshots + capacity; }
};

// Bytes of a model's pages and residual rows.
struct PrefixSizes {
  size_t prelude_page = 0;  // of the slot groups (engine/kv_cache.h)
  size_t coda_page = 0;
  size_t loop_page = 0;
  size_t row = 0;        // of the residual stream
  bool injects = false;  // rows behind the loop have an e beside them

  // One page place in prelude, coda and the first `loops` iterations.
  size_t place(int32_t loops) const { return prelude_page + coda_page + size_t(loops) * loop_page; }
  // Whether snapshots have an e beside each row.
  bool keeps_injected(const PrefixShape& shape) const { return injects && shape.resumes(); }
  // A prefix once it has been computed, to the byte.
  PrefixBytes bytes_of(const PrefixShape& shape) const;

  bool operator==(const PrefixSizes&) const = default;

 private:
  size_t capacity_of(const PrefixShape& shape) const;
  size_t snapshot_bytes(const PrefixShape& shape) const;
};

}  // namespace tinyloop::engine
