// Speed of the CPU ops at the demo model's shapes: op_bench [--benchmark_filter=…]
// GMAC: 10^9 multiply-adds a second; GB: 10^9 bytes of weights, rows or K/V read a second; both by
// wall clock. The number of threads comes from TINYLOOP_BENCH_THREADS (default 1).
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/backend.h"

namespace {

using namespace tinyloop::kernels;

constexpr int32_t kWidth = 512, kFfn = 1408;  // d_model, FFN
constexpr int32_t kHeads = 8, kKvHeads = 4, kHeadDim = 64;

Backend& backend() {
  static const std::unique_ptr<Backend> instance = [] {
    const char* threads = std::getenv("TINYLOOP_BENCH_THREADS");
    tinyloop::ModelOptions options;
    options.device = "cpu";
    options.cpu_threads = threads ? std::atoi(threads) : 1;
    return make_backend(options).value();
  }();
  return *instance;
}

// Device memory whose bytes are 0x3c: a small, ordinary number in every float format, scales of
// quantised blocks included.
DeviceBuffer filled(size_t bytes) {
  DeviceBuffer buffer(backend().memory(), bytes, MemoryUse::buffers);
  const std::vector<char> pattern(bytes, 0x3c);
  backend().memory().copy_in(buffer.data(), pattern.data(), bytes);
  return buffer;
}

RowView rows_of(const DeviceBuffer& buffer, int32_t cols) {
  return {buffer.data(), ScalarType::f32, cols, nullptr};
}

void report(benchmark::State& state, double macs, double bytes) {
  const double runs = double(state.iterations()) * 1e-9;
  state.counters["GMAC"] = benchmark::Counter(macs * runs, benchmark::Counter::kIsRate);
  state.counters["GB"] = benchmark::Counter(bytes * runs, benchmark::Counter::kIsRate);
  state.SetLabel(backend().description());
}

void linear(benchmark::State& state, WeightType type) {
  const auto rows = int32_t(state.range(0));
  WeightMatrix weights{type, kFfn, kWidth, nullptr};
  const DeviceBuffer data = filled(weights.bytes());
  weights.data = data.data();
  const DeviceBuffer x = filled(size_t(rows) * kWidth * sizeof(float));
  const DeviceBuffer y = filled(size_t(rows) * kFfn * sizeof(float));
  for (auto _ : state) {
    backend().linear({weights, rows_of(x, kWidth), rows_of(y, kFfn), rows});
  }
  report(state, double(rows) * kFfn * kWidth, double(weights.bytes()));
}

// The int8 form: weights in panels, rows of 8-bit blocks.
void linear_int8(benchmark::State& state, WeightType type) {
  const auto rows = int32_t(state.range(0));
  WeightMatrix weights{type, kFfn, kWidth, nullptr, WeightLayout::panels};
  const DeviceBuffer data = filled(weights.bytes());
  weights.data = data.data();
  const DeviceBuffer x = filled(size_t(rows) * kWidth * sizeof(float));
  const DeviceBuffer y = filled(size_t(rows) * kFfn * sizeof(float));
  const RowView input = rows_of(x, kWidth).as_q8();
  backend().quantise_rows({rows_of(x, kWidth), input, rows, kWidth});
  for (auto _ : state) backend().linear({weights, input, rows_of(y, kFfn), rows});
  report(state, double(rows) * kFfn * kWidth, double(weights.bytes()));
}

void rms_norm(benchmark::State& state) {
  const auto rows = int32_t(state.range(0));
  const DeviceBuffer x = filled(size_t(rows) * kWidth * sizeof(float));
  const DeviceBuffer weight = filled(kWidth * sizeof(float));
  for (auto _ : state) {
    backend().rms_norm(
        {rows_of(x, kWidth), rows_of(x, kWidth), weight.as<float>(), rows, 1, kWidth, 1e-5f});
  }
  report(state, 2.0 * rows * kWidth, 8.0 * rows * kWidth);
}

// `rows` decoding sequences, each with `context` positions in pages of its own.
void attention(benchmark::State& state) {
  const auto rows = int32_t(state.range(0)), context = int32_t(state.range(1));
  const KvLayout layout{ScalarType::f32, kKvHeads, kHeadDim};
  const int32_t pages = (context + kPagePositions - 1) / kPagePositions;
  const DeviceBuffer arena = filled(size_t(rows) * size_t(pages) * layout.layer_bytes());
  std::vector<std::byte*> addresses;
  for (int32_t page = 0; page < rows * pages; ++page) {
    addresses.push_back(arena.data() + size_t(page) * layout.layer_bytes());
  }
  std::vector<int32_t> tables, table_of_row(static_cast<size_t>(rows));
  for (int32_t row = 0; row < rows; ++row) tables.push_back(row * pages);
  std::iota(table_of_row.begin(), table_of_row.end(), 0);
  const std::vector<int32_t> windows(static_cast<size_t>(rows), 0);
  const std::vector<int32_t> positions(static_cast<size_t>(rows), context - 1);
  KvView cache;
  cache.layout = layout;
  cache.pages = addresses.data();
  cache.tables = tables.data();
  cache.windows = windows.data();
  cache.row_table = table_of_row.data();
  cache.positions = positions.data();
  const int32_t width = kHeads * kHeadDim;
  const DeviceBuffer q = filled(size_t(rows) * size_t(width) * sizeof(float));
  const DeviceBuffer out = filled(size_t(rows) * size_t(width) * sizeof(float));
  for (auto _ : state) {
    backend().attention({rows_of(q, width), rows_of(out, width), cache, rows, kHeads});
  }
  const double positions_read = double(rows) * context;
  report(state, 2 * positions_read * width, 2 * positions_read * kKvHeads * kHeadDim * 4);
}

void register_linear() {
  constexpr WeightType kTypes[] = {WeightType::f32,  WeightType::f16,  WeightType::bf16,
                                   WeightType::q8_0, WeightType::q4_0, WeightType::q4_1};
  for (const WeightType type : kTypes) {
    const std::string name = "linear/" + std::string(weight_format(type).name);
    benchmark::RegisterBenchmark(name.c_str(), linear, type)
        ->Arg(1)
        ->Arg(64)
        ->Arg(256)
        ->UseRealTime();
  }
  for (const WeightType type : {WeightType::q8_0, WeightType::q4_0, WeightType::q4_1}) {
    const std::string name = "linear_int8/" + std::string(weight_format(type).name);
    benchmark::RegisterBenchmark(name.c_str(), linear_int8, type)
        ->Arg(1)
        ->Arg(16)
        ->Arg(256)
        ->UseRealTime();
  }
}

BENCHMARK(rms_norm)->Arg(1)->Arg(64)->Arg(256)->UseRealTime();
BENCHMARK(attention)
    ->ArgNames({"rows", "context"})
    ->Args({1, 128})
    ->Args({1, 1024})
    ->Args({64, 256})
    ->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
  register_linear();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
