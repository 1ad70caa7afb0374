// Speed of attention on a device: attention_bench [--device D] [--rows N]… [--context N]…
// [--shape NAME]… [--slices]
//
//   decode   rows of sequences of their own: microseconds a launch, beside the time that reading
//            their keys and values takes at the device's rate
//   slices   a prompt in slices: microseconds for the slice that ends at each position
//
// A step attends in many layers, whose pages together are far larger than any cache of the device.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/device_copy.h"
#include "bench/samples.h"
#include "kernels/attention_plan.h"
#include "kernels/backend.h"

namespace tinyloop::bench {
namespace {

using namespace kernels;

struct Shape {
  std::string name;
  int32_t heads, kv_heads, head_dim;
};
const Shape kShapes[] = {{"m409", 32, 8, 64},
                         {"ouro", 16, 16, 128},
                         {"group2", 16, 8, 128},
                         {"group8", 64, 8, 128},
                         {"head256", 16, 4, 256}};

struct Settings {
  std::string device = "cuda:0";
  std::vector<int32_t> rows{1, 8, 32, 64}, contexts{576, 1900};
  std::vector<std::string> shapes{"m409", "ouro"};
  bool slices = false;
  int32_t prompt = 2048, slice = 256;
  int32_t layers = 16;     // whose keys and values a step reads
  int32_t launches = 64;   // of a step
  double bandwidth = 4.4;  // TB/s
};

// Halves of 1/8 to 2, of either sign.
std::vector<uint16_t> random_halves(size_t count) {
  std::mt19937 random(7);
  std::vector<uint16_t> halves(count);
  for (uint16_t& half : halves) half = uint16_t(0x3000u | (random() & 0x8fffu));
  return halves;
}

DeviceBuffer random_pages(DeviceMemory& memory, size_t bytes) {
  static const std::vector<uint16_t> pattern = random_halves(size_t{32} << 20);
  DeviceBuffer pages(memory, bytes, MemoryUse::buffers);
  if (!pages) throw std::runtime_error("out of device memory");
  const size_t most = pattern.size() * sizeof(uint16_t);
  for (size_t at = 0; at < bytes; at += most) {
    memory.copy_in(pages.data() + at, pattern.data(), std::min(most, bytes - at));
  }
  return pages;
}

// `sequences` sequences of `context` positions each, in pages that lie in no order.
class Cache {
 public:
  Cache(Backend& backend, const Shape& shape, int32_t sequences, int32_t context, int32_t layers)
      : layout_(backend.kv_layout(shape.kv_heads, shape.head_dim)) {
    DeviceMemory& memory = backend.memory();
    const int32_t of_sequence = (context + kPagePositions - 1) / kPagePositions;
    const size_t count = size_t(sequences) * size_t(of_sequence);
    const size_t page_bytes = layout_.layer_bytes() * size_t(layers);
    storage_ = random_pages(memory, count * page_bytes);
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937(11));
    std::vector<std::byte*> pages;
    for (size_t page : order) pages.push_back(storage_.data() + page * page_bytes);
    std::vector<int32_t> tables;
    for (int32_t s = 0; s < sequences; ++s) tables.push_back(s * of_sequence);
    pages_ = copy_of(memory, pages);
    tables_ = copy_of(memory, tables);
    windows_ = copy_of(memory, std::vector<int32_t>(size_t(sequences), 0));
  }
  KvView view(int32_t layer) const {
    KvView view{};
    view.layout = layout_;
    view.layer_offset = size_t(layer) * layout_.layer_bytes();
    view.pages = pages_.as<std::byte*>();
    view.tables = tables_.as<int32_t>();
    view.windows = windows_.as<int32_t>();
    return view;
  }

 private:
  KvLayout layout_;
  DeviceBuffer storage_, pages_, tables_, windows_;
};

// Rows of a batch, and the step that attends to them in every layer.
class Step {
 public:
  Step(Backend& backend, const Shape& shape, const Settings& settings,
       const std::vector<int32_t>& tables, const std::vector<int32_t>& positions)
      : backend_(backend), shape_(shape), settings_(settings), rows_(int32_t(tables.size())) {
    DeviceMemory& memory = backend.memory();
    plan_attention(tables, positions, shape.heads / shape.kv_heads, plan_);
    row_table_ = copy_of(memory, tables);
    positions_ = copy_of(memory, positions);
    narrow_ = copy_of(memory, plan_.narrow);
    wide_ = copy_of(memory, plan_.wide);
    const size_t values = size_t(rows_) * size_t(shape.heads) * size_t(shape.head_dim);
    q_ = copy_of(memory, random_halves(values));
    out_ = copy_of(memory, std::vector<uint16_t>(values));
  }

  // Median of some samples, in microseconds a launch.
  double time(const Cache& cache) {
    constexpr int32_t kWarmUp = 12;  // lists that keep coming become graphs
    for (int32_t i = 0; i < kWarmUp; ++i) run(cache);
    constexpr double kSampleSeconds = 0.03;
    const auto steps = int32_t(std::clamp(kSampleSeconds / seconds(cache, 1), 2.0, 200.0));
    Samples samples;
    for (int32_t i = 0; i < 5; ++i) samples.push_back(seconds(cache, steps));
    return median(samples) / double(steps) / settings_.launches * 1e6;
  }

 private:
  double seconds(const Cache& cache, int32_t steps) {
    const auto begin = std::chrono::steady_clock::now();
    for (int32_t i = 0; i < steps; ++i) run(cache);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  void run(const Cache& cache) {
    const int32_t cols = shape_.heads * shape_.head_dim;
    for (int32_t i = 0; i < settings_.launches; ++i) {
      KvView view = cache.view(i % settings_.layers);
      view.row_table = row_table_.as<int32_t>();
      view.positions = positions_.as<int32_t>();
      view.tiles = {narrow_.as<QueryTile>(), wide_.as<QueryTile>(), int32_t(plan_.narrow.size()),
                    int32_t(plan_.wide.size()), plan_.most_context};
      backend_.attention({{q_.data(), ScalarType::f16, cols, nullptr},
                          {out_.data(), ScalarType::f16, cols, nullptr},
                          view,
                          rows_,
                          shape_.heads});
    }
    backend_.synchronise();
  }

  Backend& backend_;
  const Shape& shape_;
  const Settings& settings_;
  const int32_t rows_;
  AttentionPlan plan_;
  DeviceBuffer row_table_, positions_, narrow_, wide_, q_, out_;
};

void decode(Backend& backend, const Settings& settings, const Shape& shape) {
  for (int32_t context : settings.contexts) {
    const int32_t most = *std::max_element(settings.rows.begin(), settings.rows.end());
    const Cache cache(backend, shape, most, context, settings.layers);
    for (int32_t rows : settings.rows) {
      std::vector<int32_t> tables(static_cast<size_t>(rows));
      std::iota(tables.begin(), tables.end(), 0);
      const std::vector<int32_t> positions(size_t(rows), context - 1);
      const double us = Step(backend, shape, settings, tables, positions).time(cache);
      const double bytes = double(rows) * context * shape.kv_heads * shape.head_dim * 4.0;
      const double floor = bytes / settings.bandwidth * 1e-6;
      std::printf("%-8s %4d rows of %6d  %8.2f us  floor %8.2f  %5.1f %%\n", shape.name.c_str(),
                  rows, context, us, floor, floor / us * 100.0);
      std::fflush(stdout);
    }
  }
}

void slices(Backend& backend, const Settings& settings, const Shape& shape) {
  const Cache cache(backend, shape, 1, settings.prompt, settings.layers);
  for (int32_t end = settings.slice; end <= settings.prompt; end += settings.slice) {
    std::vector<int32_t> positions(static_cast<size_t>(settings.slice));
    std::iota(positions.begin(), positions.end(), end - settings.slice);
    const std::vector<int32_t> tables(positions.size(), 0);
    const double us = Step(backend, shape, settings, tables, positions).time(cache);
    // Scores and weighted values of the positions that are not masked.
    const double pairs = double(settings.slice) * (end - (settings.slice - 1) * 0.5);
    const double tflops = 4.0 * pairs * shape.heads * shape.head_dim / us * 1e-6;
    std::printf("%-8s slice of %d to %6d  %8.2f us  %6.1f TFLOP/s\n", shape.name.c_str(),
                settings.slice, end, us, tflops);
    std::fflush(stdout);
  }
}

void run(const Settings& settings) {
  ModelOptions options;
  options.device = settings.device;
  const auto backend = make_backend(options);
  if (!backend) throw std::runtime_error(backend.error().detail);
  std::printf("%s, %d launches a step, floor at %.1f TB/s\n", (*backend)->description().c_str(),
              settings.launches, settings.bandwidth);
  for (const std::string& name : settings.shapes) {
    const auto* shape = std::find_if(std::begin(kShapes), std::end(kShapes),
                                     [&](const Shape& s) { return s.name == name; });
    if (shape == std::end(kShapes)) throw std::runtime_error("no shape " + name);
    if (settings.slices) {
      slices(**backend, settings, *shape);
    } else {
      decode(**backend, settings, *shape);
    }
  }
}

}  // namespace
}  // namespace tinyloop::bench

int main(int argc, char** argv) {
  tinyloop::bench::Settings settings;
  CLI::App app("What attention costs on a device.");
  app.add_option("--device", settings.device);
  app.add_option("--rows", settings.rows);
  app.add_option("--context", settings.contexts);
  app.add_option("--shape", settings.shapes, "m409, ouro, group2, group8, head256");
  app.add_flag("--slices", settings.slices, "a prompt in slices, in place of decoding rows");
  app.add_option("--prompt", settings.prompt);
  app.add_option("--slice", settings.slice);
  app.add_option("--layers", settings.layers);
  app.add_option("--launches", settings.launches);
  app.add_option("--bandwidth", settings.bandwidth, "TB/s");
  CLI11_PARSE(app, argc, argv);
  try {
    tinyloop::bench::run(settings);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
