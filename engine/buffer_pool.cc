#include "engine/buffer_pool.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/rope.h"

namespace tinyloop::engine {

using kernels::RowView;

BufferShape buffer_shape(const ModelSpec& spec, const ModelOptions& options) {
  const int32_t rows = options.prefill_chunk > 0 ? options.prefill_chunk : options.max_seq_len;
  return {.max_seq_len = options.max_seq_len,
          .rows = rows,
          .logit_rows = std::min(options.max_sequences, rows),
          .d_model = spec.d_model,
          .q_width = spec.heads * spec.head_dim,
          .kv_width = spec.kv_heads * spec.head_dim,
          .head_dim = spec.head_dim,
          .ffn = spec.ffn,
          .vocab = spec.vocab,
          .injects = spec.injection != Injection::none,
          .rope_base = spec.rope_base};
}

base::Result<BufferPool> BufferPool::allocate(const BufferShape& shape, kernels::Backend& backend,
                                              MemoryLedger& ledger) {
  BufferPool pool(shape, backend, ledger);
  const size_t scratch = kernels::size_of(backend.scratch_type());
  const size_t residual_bytes = size_t(shape.d_model) * sizeof(float);
  struct Wanted {
    BufferId id;
    int32_t rows;
    size_t row_bytes;
  };
  const Wanted wanted[] = {
      {BufferId::main, shape.max_seq_len, residual_bytes},
      {BufferId::injected, shape.injects ? shape.max_seq_len : 0, residual_bytes},
      {BufferId::norm, shape.rows, size_t(shape.d_model) * scratch},
      {BufferId::scratch1, shape.rows, size_t(pool.scratch1_width()) * scratch},
      {BufferId::attn_down, shape.rows, size_t(pool.attn_down_width()) * scratch},
      {BufferId::rope_table, shape.max_seq_len, size_t(shape.head_dim) * sizeof(float)},
  };
  for (const Wanted& w : wanted) {
    if (w.rows == 0 || pool.take(w.id, w.rows, w.row_bytes)) continue;
    return base::Error{errc::out_of_memory, std::string("buffer '") + to_string(w.id) + "': " +
                                                std::to_string(size_t(w.rows) * w.row_bytes) +
                                                " bytes could not be allocated"};
  }
  pool.upload_rope_table();
  return pool;
}

BufferPool::~BufferPool() {
  for (size_t i = 0; i < kBufferIds; ++i) {
    if (buffers_[i]) ledger_->set_buffer(BufferId(i), 0, 0);
  }
}

float* BufferPool::on_first_use(BufferId id) {
  if (!buffer(id)) take(id, shape_.logit_rows, size_t(shape_.vocab) * sizeof(float));
  return buffer(id).as<float>();
}

int32_t BufferPool::scratch1_width() const {
  const int32_t inject = shape_.injects ? 2 * shape_.d_model : 0;
  return std::max({shape_.q_width + 2 * shape_.kv_width, 2 * shape_.ffn, inject});
}

int32_t BufferPool::attn_down_width() const {
  return std::max(shape_.q_width, shape_.ffn);
}

RowView BufferPool::residual(BufferId id, const int32_t* lines) const {
  return {buffer(id).data(), kernels::ScalarType::f32, shape_.d_model, lines};
}

RowView BufferPool::scratch(BufferId id, int32_t width) const {
  return {buffer(id).data(), backend_->scratch_type(), width, nullptr};
}

bool BufferPool::take(BufferId id, int32_t rows, size_t row_bytes) {
  const size_t bytes = size_t(rows) * row_bytes;
  auto& buffer = buffers_[size_t(id)];
  buffer = kernels::DeviceBuffer(backend_->memory(), bytes, kernels::MemoryUse::buffers);
  if (buffer) ledger_->set_buffer(id, size_t(rows), bytes);
  return static_cast<bool>(buffer);
}

void BufferPool::upload_rope_table() {
  std::vector<float> table(size_t(shape_.max_seq_len) * size_t(shape_.head_dim));
  kernels::fill_rope_table(table.data(), shape_.max_seq_len, shape_.head_dim, shape_.rope_base);
  backend_->memory().copy_in(buffer(BufferId::rope_table).data(), table.data(),
                             table.size() * sizeof(float));
}

}  // namespace tinyloop::engine
