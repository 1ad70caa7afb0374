#include "kernels/backend.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cpu/cpu_context.h"

namespace tinyloop::kernels {
namespace {

using base::Error;

Error error_of(const ModelOptions& options) {
  const auto backend = make_backend(options);
  return backend.has_error() ? backend.error() : Error{errc::ok, {}};
}

TEST(BackendTest, DescribesWhatFixesTheBits) {
  ModelOptions options{.device = "cpu"};
  options.cpu_threads = 2;
  const auto backend = std::move(make_backend(options).value());
  const std::string target = simd_target_name();
  EXPECT_EQ(backend->description(), "cpu (" + target + ", int8, 2 threads)");
  EXPECT_EQ(backend->scratch_type(), ScalarType::f32);
  EXPECT_EQ(backend->kv_layout(1, 2).type, ScalarType::f16);
  options.cpu_threads = 1;
  options.mode = ArithmeticMode::f32;
  const auto reference = std::move(make_backend(options).value());
  EXPECT_EQ(reference->description(), "cpu (" + target + ", f32, 1 thread)");
  EXPECT_EQ(reference->kv_layout(1, 2).type, ScalarType::f32);
}

TEST(BackendTest, PanelsAreForQuantisedWeightsInInt8) {
  ModelOptions options{.device = "cpu"};
  options.cpu_threads = 1;
  for (auto mode : {ArithmeticMode::int8, ArithmeticMode::f32}) {
    options.mode = mode;
    const auto backend = std::move(make_backend(options).value());
    for (auto type : {WeightType::q4_0, WeightType::q4_1, WeightType::q8_0}) {
      EXPECT_EQ(backend->weight_layout(type) == WeightLayout::panels, mode == ArithmeticMode::int8);
    }
    for (auto type : {WeightType::f32, WeightType::f16, WeightType::bf16}) {
      EXPECT_EQ(backend->weight_layout(type), WeightLayout::rows);
    }
  }
}

TEST(BackendTest, ItsWorkspaceIsCounted) {
  ModelOptions options{.device = "cpu"};
  options.cpu_threads = 3;
  const auto backend = std::move(make_backend(options).value());
  const size_t bytes = 3 * CpuContext::kWorkspaceFloats * sizeof(float);
  EXPECT_EQ(backend->memory().used(MemoryUse::workspace), bytes);
  EXPECT_EQ(backend->memory().used_total(), bytes);
  EXPECT_EQ(backend->memory().allocation_count(), 1u);
  options.memory_budget_bytes = bytes;
  EXPECT_EQ(error_of(options).code, errc::ok);
  options.memory_budget_bytes = bytes - 1;
  const Error error = error_of(options);
  EXPECT_EQ(error.code, errc::out_of_memory);
  EXPECT_NE(error.detail.find(std::to_string(bytes)), std::string::npos) << error.detail;
}

TEST(BackendTest, RefusesWhatItDoesNotKnow) {
  ModelOptions options;
  options.device = "tpu";
  EXPECT_EQ(error_of(options).code, errc::invalid_argument);
  EXPECT_NE(error_of(options).detail.find("tpu"), std::string::npos);
  options = {.device = "cpu"};
  options.mode = ArithmeticMode(99);
  EXPECT_EQ(error_of(options).code, errc::invalid_argument);
}

TEST(BackendTest, RefusesDevicesThatAreNotThere) {
  for (const char* device : {"", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:0x", "cuda:999"}) {
    const Error error = error_of({.device = device});
    EXPECT_EQ(error.code, errc::invalid_argument) << device;
    EXPECT_NE(error.detail.find('"' + std::string(device) + '"'), std::string::npos)
        << error.detail;
  }
}

TEST(BackendTest, EachDeviceHasItsModes) {
  EXPECT_EQ(error_of({.device = "cpu", .mode = ArithmeticMode::f16}).code, errc::invalid_argument);
  EXPECT_EQ(error_of({.device = "cuda:0", .mode = ArithmeticMode::f32}).code,
            errc::invalid_argument);
  const Error fast = error_of({.device = "cpu", .mode = ArithmeticMode::fast});
  EXPECT_EQ(fast.code, errc::invalid_argument);
  EXPECT_EQ(fast.detail, "mode = fast (4): the CPU has int8 and f32");
}

// A mode that the CPU alone has decides for it.
TEST(BackendTest, AutoGivesTheCpuItsModes) {
  for (auto mode : {ArithmeticMode::int8, ArithmeticMode::f32}) {
    const auto backend = std::move(make_backend({.mode = mode, .cpu_threads = 1}).value());
    EXPECT_EQ(backend->description().substr(0, 5), "cpu (") << to_string(mode);
  }
}

TEST(BackendTest, AWrongScalarTypeIsABug) {
  ModelOptions options{.device = "cpu"};
  options.cpu_threads = 1;
  const auto backend = std::move(make_backend(options).value());
  std::vector<float> data(8);
  const RowView f32{data.data(), ScalarType::f32, 8, nullptr};
  const RowView f16{data.data(), ScalarType::f16, 8, nullptr};
  EXPECT_THROW(backend->residual_add({f16, f32, 1, 8}), base::Failure);
  EXPECT_THROW(backend->copy_rows({f32, f16, 1, 8}), base::Failure);
}

TEST(BackendTest, CudaStatusSaysSomething) {
  EXPECT_FALSE(cuda_status().empty());
}

}  // namespace
}  // namespace tinyloop::kernels
