// Where a layer of a decode pass spends its time: each op alone, and the whole layer, as replayed
// graphs of a CUDA device, over layers that do not fit into its caches.
//
//   product_bench --shape ouro14 --type Q4_0 --rows 1,8,32,64,128,256 [--context 176] [--prompt]
//
// The floor of an op is what it reads at 4.46 TB/s or what it multiplies at 800 TFLOP/s, whichever
// takes longer: what one H200 was measured to do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include "bench/product/layer_stack.h"
#include "kernels/weight_tiles.h"

namespace {

using namespace tinyloop;
using bench::LayerShape;
using bench::LayerStack;

struct Work {
  double bytes, multiply_adds;

  Work operator+(const Work& other) const {
    return {bytes + other.bytes, multiply_adds + other.multiply_adds};
  }
  double floor_us() const { return std::max(bytes / 4.46e6, multiply_adds / 400e6); }
};

// What an op of a layer reads beside rows, and multiplies.
struct LayerWork {
  const LayerStack& layers;
  double rows;

  Work product(int32_t outputs, int32_t cols) const {
    return {double(layers.matrix_bytes(outputs, cols)), double(outputs) * cols * rows};
  }
  Work attention() const {
    const LayerShape& s = layers.options().shape;
    const double context = layers.options().context;
    const bool prompt = layers.options().prompt;
    const double sequences = prompt ? 1 : rows;
    return {sequences * context * 2 * s.kv_width() * 2,
            rows * context * 2 * s.q_width() * (prompt ? 0.5 : 1)};
  }
};

struct Op {
  const char* name;
  Work work;
  std::function<void(int32_t layer)> run;
};

std::vector<Op> ops_of(LayerStack& layers, int32_t rows) {
  const LayerShape& s = layers.options().shape;
  const LayerWork work{layers, double(rows)};
  const Work qkv = work.product(s.q_width() + 2 * s.kv_width(), s.d_model);
  const Work output = work.product(s.d_model, s.q_width());
  const Work hidden = work.product(2 * s.ffn, s.d_model), down = work.product(s.d_model, s.ffn);
  const auto products = [&layers](int32_t l) {
    layers.qkv(l);
    layers.output(l);
    layers.hidden(l);
    layers.down(l);
  };
  return {{"norm, q, k, v", qkv, [&](int32_t l) { layers.qkv(l); }},
          {"attention", work.attention(), [&](int32_t l) { layers.attention(l); }},
          {"output", output, [&](int32_t l) { layers.output(l); }},
          {"norm, gate, up", hidden, [&](int32_t l) { layers.hidden(l); }},
          {"down", down, [&](int32_t l) { layers.down(l); }},
          {"products", qkv + output + hidden + down, products},
          {"layer", qkv + output + hidden + down + work.attention(), [&layers](int32_t l) {
             layers.qkv(l);
             layers.attention(l);
             layers.output(l);
             layers.hidden(l);
             layers.down(l);
           }}};
}

// The median of the runs, a layer.
double time_us(kernels::Backend& backend, const Op& op, int32_t layers, int32_t repeat) {
  constexpr int32_t kTurns = 2, kUntilRecorded = 8;
  std::vector<double> times;
  for (int32_t i = 0; i < kUntilRecorded + repeat; ++i) {
    backend.memory().begin_step();
    const auto begin = std::chrono::steady_clock::now();
    for (int32_t l = 0; l < kTurns * layers; ++l) op.run(l % layers);
    backend.synchronise();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    if (i >= kUntilRecorded) times.push_back(time.count() / (kTurns * layers));
  }
  std::nth_element(times.begin(), times.begin() + repeat / 2, times.end());
  return times[size_t(repeat) / 2];
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Where a layer of a decode pass spends its time");
  std::string shape_name = "ouro14", type_name = "Q4_0", only;
  std::vector<int32_t> rows = {1, 8, 32, 64, 128, 256};
  int32_t context = 176, count = 16, repeat = 15;
  bool prompt = false;
  app.add_option("--shape", shape_name, "ouro14, m409 or loop24");
  app.add_option("--type", type_name, "Q4_0, Q4_1, Q8_0 or F16");
  app.add_option("--rows", rows, "rows of a pass")->delimiter(',');
  app.add_option("--context", context, "positions that a row attends to");
  app.add_option("--layers", count, "layers with weights of their own");
  app.add_option("--repeat", repeat, "runs, whose median counts");
  app.add_option("--only", only, "ops with this in their name alone");
  app.add_flag("--prompt", prompt, "rows of one sequence, not of many");
  CLI11_PARSE(app, argc, argv);
  const auto* shape = std::find_if(std::begin(bench::kLayerShapes), std::end(bench::kLayerShapes),
                                   [&](const LayerShape& of) { return of.name == shape_name; });
  constexpr kernels::WeightType kTypes[] = {kernels::WeightType::q4_0, kernels::WeightType::q4_1,
                                            kernels::WeightType::q8_0, kernels::WeightType::f16};
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto of) {
    return kernels::weight_format(of).name == type_name;
  });
  if (shape == std::end(bench::kLayerShapes) || type == std::end(kTypes)) {
    std::fprintf(stderr, "no such shape or type\n");
    return 1;
  }
  ModelOptions options;
  options.device = "cuda:0";
  auto made = kernels::make_backend(options);
  if (!made) {
    std::fprintf(stderr, "%s\n", kernels::cuda_status().c_str());
    return 1;
  }
  kernels::Backend& backend = *made.value();
  const int32_t most_rows = *std::max_element(rows.begin(), rows.end());
  LayerStack layers(backend, {*shape, *type, count, most_rows,
                              std::max(context, prompt ? most_rows : 1), prompt});
  std::printf("%s, %s, context %d, %s\n", shape_name.c_str(), type_name.c_str(), context,
              backend.description().c_str());
  for (int32_t n : rows) {
    layers.take_rows(n);
    for (const Op& op : ops_of(layers, n)) {
      if (!only.empty() && std::string(op.name).find(only) == std::string::npos) continue;
      const double us = time_us(backend, op, count, repeat);
      std::printf("%4d rows  %-15s %8.2f us  floor %7.2f  %3.0f %%\n", n, op.name, us,
                  op.work.floor_us(), 100 * op.work.floor_us() / us);
    }
    std::fflush(stdout);
  }
  return 0;
}
