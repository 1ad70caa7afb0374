// The activations that a replica owns for its whole life, allocated at load.
//
//   main       [max_seq_len, d] f32      the residual stream of every row in flight
//   injected   [max_seq_len, d] f32      e of every row in flight, where the model injects
//   norm       [rows, d]                 a layer's normalised input, then its branch's output
//   scratch1   [rows, widest]            q | k | v, gate | up, or [s; e]
//   attn_down  [rows, max(heads · head_dim, ffn)]  attention output; the input of `down`
//   logits     [logit_rows, vocab] f32   allocated on first use
//   adjusted_logits [logit_rows, vocab] f32   allocated on first use
//   rope_table [max_seq_len, head_dim / 2, 2] f32
// `rows` is ModelOptions::prefill_chunk, or max_seq_len when that is 0. norm, scratch1 and
// attn_down have the backend's scratch type (f32 on the CPU, FP16 on a GPU); rows that panels of
// weights are to read give way to their 8-bit form in place.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "engine/memory_ledger.h"
#include "engine/model_spec.h"
#include "kernels/backend.h"

namespace tinyloop::engine {

struct BufferShape {
  int32_t max_seq_len = 0;
  int32_t rows = 0;  // of norm, scratch1, attn_down
  int32_t logit_rows = 0;
  int32_t d_model = 0;
  int32_t q_width = 0;   // heads · head_dim
  int32_t kv_width = 0;  // kv_heads · head_dim
  int32_t head_dim = 0;
  int32_t ffn = 0;
  int32_t vocab = 0;
  bool injects = false;
  float rope_base = 0;
};

// What a model needs under the given options.
BufferShape buffer_shape(const ModelSpec& spec, const ModelOptions& options);

class BufferPool {
 public:
  // Errors: out_of_memory, naming the buffer and its bytes; nothing stays allocated then.
  static base::Result<BufferPool> allocate(const BufferShape& shape, kernels::Backend& backend,
                                           MemoryLedger& ledger);
  BufferPool(BufferPool&&) noexcept = default;
  BufferPool& operator=(BufferPool&&) = delete;
  ~BufferPool();

  const BufferShape& shape() const { return shape_; }
  // Rows of main (or injected) that stand at the given device array of lines.
  kernels::RowView main(const int32_t* lines) const { return residual(BufferId::main, lines); }
  kernels::RowView injected(const int32_t* lines) const {
    return residual(BufferId::injected, lines);
  }
  kernels::RowView norm() const { return scratch(BufferId::norm, shape_.d_model); }
  kernels::RowView scratch1() const { return scratch(BufferId::scratch1, scratch1_width()); }
  kernels::RowView attn_down() const { return scratch(BufferId::attn_down, attn_down_width()); }
  const float* rope_table() const { return buffer(BufferId::rope_table).as<float>(); }
  // nullptr: out of memory on first use.
  float* logits() { return on_first_use(BufferId::logits); }
  // Logits as biases, masks and penalties have changed them.
  float* adjusted_logits() { return on_first_use(BufferId::adjusted_logits); }

 private:
  BufferPool(const BufferShape& shape, kernels::Backend& backend, MemoryLedger& ledger)
      : shape_(shape), backend_(&backend), ledger_(&ledger) {}

  int32_t scratch1_width() const;
  int32_t attn_down_width() const;
  const kernels::DeviceBuffer& buffer(BufferId id) const { return buffers_[size_t(id)]; }
  kernels::RowView residual(BufferId id, const int32_t* lines) const;
  kernels::RowView scratch(BufferId id, int32_t width) const;
  float* on_first_use(BufferId id);
  bool take(BufferId id, int32_t rows, size_t row_bytes);
  void upload_rope_table();

  BufferShape shape_;
  kernels::Backend* backend_;
  MemoryLedger* ledger_;
  std::array<kernels::DeviceBuffer, kBufferIds> buffers_;
};

}  // namespace tinyloop::engine
