// A backend around another one that behaves as a test asks: a device that breaks down, that has
// limits of its own, that has counted something.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.h"

namespace tinyloop::testing {

// What a test asks for; it may change while the backend runs. Shared, for it outlives the backend.
struct TestDevice {
  // The n-th synchronise() from now throws `error`, and so does every later one: what a CUDA device
  // does that has met an error (1 = the next); 0: none does.
  std::atomic<int> fail_in{0};
  base::Error error{errc::replica_failed, "cudaStreamSynchronize: an illegal memory access"};
  std::string name = "test";
  int32_t most_head_dim = 1024;
  bool runs_ahead = false;  // also where the other one does not
  // The next synchronise() first lets the device read and write where nothing is: on a GPU an error
  // from which it does not recover while the process lives. Never on the CPU.
  std::atomic<bool> breaks{false};
  std::atomic<uint64_t> saturated{0}, host_launches{0};
};

class TestBackend final : public kernels::Backend {
 public:
  TestBackend(std::unique_ptr<kernels::Backend> inner, std::shared_ptr<TestDevice> device)
      : inner_(std::move(inner)), device_(std::move(device)) {}

  kernels::DeviceMemory& memory() override { return inner_->memory(); }
  kernels::ScalarType scratch_type() const override { return inner_->scratch_type(); }
  kernels::KvLayout kv_layout(int32_t kv_heads, int32_t head_dim) const override {
    return inner_->kv_layout(kv_heads, head_dim);
  }
  int32_t most_head_dim() const override { return device_->most_head_dim; }
  bool wants_query_tiles() const override { return inner_->wants_query_tiles(); }
  kernels::Pace pace() const override { return inner_->pace(); }
  bool runs_ahead() const override { return device_->runs_ahead || inner_->runs_ahead(); }
  kernels::WeightLayout weight_layout(kernels::WeightType type) const override {
    return inner_->weight_layout(type);
  }
  bool wants_fp16_copies() const override { return inner_->wants_fp16_copies(); }
  void fp16_copy(const kernels::Fp16CopyArgs& args) override { inner_->fp16_copy(args); }
  std::string description() const override { return device_->name; }

  void embed(const kernels::EmbedArgs& args) override { inner_->embed(args); }
  void rms_norm(const kernels::RmsNormArgs& args) override { inner_->rms_norm(args); }
  void linear_all(std::span<const kernels::LinearArgs> layers) override {
    inner_->linear_all(layers);
  }
  void linear_add(const kernels::LinearArgs& layer, const kernels::RowView& branch) override {
    inner_->linear_add(layer, branch);
  }
  bool linear_add_before(const kernels::LinearArgs& layer, const kernels::RowView& branch,
                         const kernels::RmsNormArgs& next) override {
    return inner_->linear_add_before(layer, branch, next);
  }
  bool normed_add(const kernels::NormedAddArgs& args, const kernels::RmsNormArgs* next) override {
    return inner_->normed_add(args, next);
  }
  void quantise_rows(const kernels::QuantiseRowsArgs& args) override {
    inner_->quantise_rows(args);
  }
  void rope(const kernels::RopeArgs& args) override { inner_->rope(args); }
  void kv_append(const kernels::KvAppendArgs& args) override { inner_->kv_append(args); }
  bool wants_qkv() const override { return inner_->wants_qkv(); }
  void qkv(const kernels::QkvArgs& args) override { inner_->qkv(args); }
  void attention(const kernels::AttentionArgs& args) override { inner_->attention(args); }
  void ffn_activation(const kernels::FfnActivationArgs& args) override {
    inner_->ffn_activation(args);
  }
  void ffn_hidden(const kernels::FfnHiddenArgs& args) override { inner_->ffn_hidden(args); }
  void normed_ffn_hidden(const kernels::RmsNormArgs& norm,
                         const kernels::FfnHiddenArgs& args) override {
    inner_->normed_ffn_hidden(norm, args);
  }
  void residual_add(const kernels::ResidualAddArgs& args) override { inner_->residual_add(args); }
  void copy_rows(const kernels::CopyRowsArgs& args) override { inner_->copy_rows(args); }
  void copy_pages(const kernels::CopyPagesArgs& args) override { inner_->copy_pages(args); }
  void scale_add(const kernels::ScaleAddArgs& args) override { inner_->scale_add(args); }
  void initial_state(const kernels::InitialStateArgs& args) override {
    inner_->initial_state(args);
  }
  void logits(const kernels::LogitsArgs& args) override { inner_->logits(args); }
  void sample(const kernels::SampleArgs& args) override { inner_->sample(args); }
  void count_tokens(const kernels::CountTokensArgs& args) override { inner_->count_tokens(args); }

  void start() override { inner_->start(); }
  void synchronise() override {
    if (device_->breaks.exchange(false)) {
      const kernels::RowView nowhere{reinterpret_cast<void*>(0x1000), kernels::ScalarType::f32, 64,
                                     nullptr};
      inner_->copy_rows({nowhere, nowhere, 4, 64});
    }
    inner_->synchronise();
    const int left = device_->fail_in.load();
    if (left == 1) throw base::Failure(device_->error);
    if (left > 1) device_->fail_in.store(left - 1);
  }

  uint64_t saturated() const override { return device_->saturated.load(); }
  uint64_t host_launches() const override { return device_->host_launches.load(); }

 private:
  const std::unique_ptr<kernels::Backend> inner_;
  const std::shared_ptr<TestDevice> device_;
};

}  // namespace tinyloop::testing
