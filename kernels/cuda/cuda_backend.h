// The CUDA backend: every op forwards to its x_cuda function, which puts kernels behind those
// collected before. They are started when someone waits for results or copies memory.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/cublas_library.h"
#include "kernels/cuda/cuda_context.h"

namespace tinyloop::kernels {

// Weights in tiles, FP16 scratch and K/V, sums in FP32.
class CudaBackend final : public Backend {
 public:
  // `mode`: f16 or fast, for which cuBLAS is looked for under `cublas_names`.
  // Throws base::Failure(out_of_memory, replica_failed; fast: invalid_argument without cuBLAS).
  CudaBackend(int device, size_t memory_budget_bytes, ArithmeticMode mode = ArithmeticMode::f16,
              std::span<const char* const> cublas_names = kCublasNames);

  DeviceMemory& memory() override { return context_.memory(); }
  ScalarType scratch_type() const override { return ScalarType::f16; }
  KvLayout kv_layout(int32_t kv_heads, int32_t head_dim) const override {
    return {ScalarType::f16, kv_heads, head_dim, PageOrder::matrices};
  }
  int32_t most_head_dim() const override { return most_head_dim_cuda(context_); }
  bool wants_query_tiles() const override { return true; }
  bool runs_ahead() const override { return true; }
  Pace pace() const override { return pace_; }
  WeightLayout weight_layout(WeightType) const override { return WeightLayout::tiles; }
  bool wants_fp16_copies() const override { return context_.has_cublas(); }
  std::string description() const override;

  void embed(const EmbedArgs& args) override { embed_cuda(context_, args); }
  void rms_norm(const RmsNormArgs& args) override { rms_norm_cuda(context_, args); }
  void linear_all(std::span<const LinearArgs> layers) override { linear_cuda(context_, layers); }
  void linear_add(const LinearArgs& layer, const RowView&) override {
    linear_add_cuda(context_, layer, nullptr);
  }
  bool linear_add_before(const LinearArgs& layer, const RowView&,
                         const RmsNormArgs& next) override {
    return linear_add_cuda(context_, layer, &next);
  }
  bool normed_add(const NormedAddArgs& args, const RmsNormArgs* next) override {
    return normed_add_cuda(context_, args, next);
  }
  void quantise_rows(const QuantiseRowsArgs&) override;  // no op of this backend reads q8 rows
  void rope(const RopeArgs& args) override { rope_cuda(context_, args); }
  void kv_append(const KvAppendArgs& args) override { kv_append_cuda(context_, args); }
  void attention(const AttentionArgs& args) override { attention_cuda(context_, args); }
  void ffn_activation(const FfnActivationArgs& args) override {
    ffn_activation_cuda(context_, args);
  }
  void ffn_hidden(const FfnHiddenArgs& args) override { ffn_hidden_cuda(context_, args); }
  void normed_ffn_hidden(const RmsNormArgs& norm, const FfnHiddenArgs& args) override {
    ffn_hidden_cuda(context_, args, &norm);
  }
  bool wants_qkv() const override { return true; }
  void qkv(const QkvArgs& args) override { qkv_cuda(context_, args); }
  void residual_add(const ResidualAddArgs& args) override { residual_add_cuda(context_, args); }
  void copy_rows(const CopyRowsArgs& args) override { copy_rows_cuda(context_, args); }
  void copy_pages(const CopyPagesArgs& args) override { copy_pages_cuda(context_, args); }
  void scale_add(const ScaleAddArgs& args) override { scale_add_cuda(context_, args); }
  void initial_state(const InitialStateArgs& args) override { initial_state_cuda(context_, args); }
  void fp16_copy(const Fp16CopyArgs& args) override { fp16_copy_cuda(context_, args); }
  void logits(const LogitsArgs& args) override { logits_cuda(context_, args); }
  void sample(const SampleArgs& args) override { sample_cuda(context_, args); }
  void count_tokens(const CountTokensArgs& args) override { count_tokens_cuda(context_, args); }

  void start() override { context_.start_early(); }
  void synchronise() override { context_.synchronise(); }
  uint64_t saturated() const override { return context_.saturated(); }
  uint64_t host_launches() const override { return context_.host_launches(); }

 private:
  CudaContext context_;
  const Pace pace_;
};

}  // namespace tinyloop::kernels
