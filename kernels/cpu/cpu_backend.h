// The CPU backend: every op forwards to its x_cpu function. Ops finish before they return.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/cpu_memory.h"

namespace tinyloop::kernels {

class CpuBackend final : public Backend {
 public:
  // `threads` >= 1. Throws base::Failure(out_of_memory), also when the budget is below the
  // workspaces' size.
  CpuBackend(ArithmeticMode mode, int32_t threads, size_t memory_budget_bytes)
      : mode_(mode), memory_(memory_budget_bytes), context_(memory_, threads) {}

  DeviceMemory& memory() override { return memory_; }
  ScalarType scratch_type() const override { return ScalarType::f32; }
  KvLayout kv_layout(int32_t kv_heads, int32_t head_dim) const override {
    const ScalarType type = mode_ == ArithmeticMode::int8 ? ScalarType::f16 : ScalarType::f32;
    return {type, kv_heads, head_dim, PageOrder::vectors};
  }
  Pace pace() const override;
  WeightLayout weight_layout(WeightType type) const override;
  // The thread count is named for the reader; it changes no bit.
  std::string description() const override;

  void embed(const EmbedArgs& args) override { embed_cpu(context_, args); }
  void rms_norm(const RmsNormArgs& args) override { rms_norm_cpu(context_, args); }
  void linear_all(std::span<const LinearArgs> layers) override { linear_cpu(context_, layers); }
  void quantise_rows(const QuantiseRowsArgs& args) override { quantise_rows_cpu(context_, args); }
  void rope(const RopeArgs& args) override { rope_cpu(context_, args); }
  void kv_append(const KvAppendArgs& args) override { kv_append_cpu(context_, args); }
  void attention(const AttentionArgs& args) override { attention_cpu(context_, args); }
  void ffn_activation(const FfnActivationArgs& args) override {
    ffn_activation_cpu(context_, args);
  }
  void ffn_hidden(const FfnHiddenArgs& args) override { ffn_hidden_cpu(context_, args); }
  void residual_add(const ResidualAddArgs& args) override { residual_add_cpu(context_, args); }
  void copy_rows(const CopyRowsArgs& args) override { copy_rows_cpu(context_, args); }
  void copy_pages(const CopyPagesArgs& args) override { copy_pages_cpu(context_, args); }
  void scale_add(const ScaleAddArgs& args) override { scale_add_cpu(context_, args); }
  void initial_state(const InitialStateArgs& args) override { initial_state_cpu(context_, args); }
  void logits(const LogitsArgs& args) override { logits_cpu(context_, args); }
  void sample(const SampleArgs& args) override { sample_cpu(context_, args); }
  void count_tokens(const CountTokensArgs& args) override { count_tokens_cpu(context_, args); }

  void synchronise() override {}

 private:
  const ArithmeticMode mode_;
  CpuMemory memory_;
  CpuContext context_;  // takes its workspaces from memory_
};

}  // namespace tinyloop::kernels
