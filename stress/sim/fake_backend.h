// A device that computes words instead of numbers (stress/sim/mathematics.h), through the engine's
// own page tables. Other threads may seem to run before each of its ops.
#pragma once

#include <string>

#include "kernels/backend.h"
#include "stress/sim/fake_memory.h"
#include "stress/sim/host_memory.h"
#include "stress/sim/scheduler.h"

namespace tinyloop::sim {

class FakeBackend final : public kernels::Backend {
 public:
  FakeBackend(Device& device, Scheduler& scheduler, std::string name);
  ~FakeBackend() override { device_.alive = false; }

  kernels::DeviceMemory& memory() override { return memory_; }
  kernels::ScalarType scratch_type() const override { return kernels::ScalarType::f32; }
  kernels::KvLayout kv_layout(int32_t kv_heads, int32_t head_dim) const override;
  bool runs_ahead() const override { return device_.runs_ahead; }
  kernels::Pace pace() const override { return {1e9, 1e10, 1e-6, 1e-6}; }
  kernels::WeightLayout weight_layout(kernels::WeightType) const override {
    return kernels::WeightLayout::rows;
  }
  std::string description() const override { return name_; }

  void embed(const kernels::EmbedArgs& args) override;
  void rms_norm(const kernels::RmsNormArgs& args) override;
  void linear_all(std::span<const kernels::LinearArgs> layers) override;
  void quantise_rows(const kernels::QuantiseRowsArgs& args) override;
  void rope(const kernels::RopeArgs& args) override;
  void kv_append(const kernels::KvAppendArgs& args) override;
  void attention(const kernels::AttentionArgs& args) override;
  void ffn_activation(const kernels::FfnActivationArgs& args) override;
  void ffn_hidden(const kernels::FfnHiddenArgs& args) override;
  void residual_add(const kernels::ResidualAddArgs& args) override;
  void copy_rows(const kernels::CopyRowsArgs& args) override;
  void copy_pages(const kernels::CopyPagesArgs& args) override;
  void scale_add(const kernels::ScaleAddArgs& args) override;
  void initial_state(const kernels::InitialStateArgs& args) override;
  void logits(const kernels::LogitsArgs& args) override;
  void sample(const kernels::SampleArgs& args) override;
  void count_tokens(const kernels::CountTokensArgs& args) override;
  void synchronise() override;

 private:
  Allocating begin_op();
  Cell& cell(const kernels::KvView& view, int32_t row, int32_t position);

  Device& device_;
  Scheduler& scheduler_;
  const std::string name_;
  FakeMemory memory_;
};

}  // namespace tinyloop::sim
