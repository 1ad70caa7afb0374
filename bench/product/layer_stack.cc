#include "bench/product/layer_stack.h"

#include <random>

#include "base/error.h"
#include "kernels/rope.h"
#include "kernels/weight_tiles.h"

namespace tinyloop::bench {

using kernels::RowView;
using kernels::ScalarType;
using kernels::WeightMatrix;
using kernels::WeightType;

namespace {

constexpr size_t kCachedLayers = 4;

// Tiles of random codes and of scales near 0.01, of both signs, so that sums stay small; of random
// numbers near 0.01 in FP16.
std::vector<std::byte> random_tiles(WeightType type, size_t bytes, uint32_t seed) {
  std::vector<std::byte> tiles(bytes);
  auto* words = reinterpret_cast<uint32_t*>(tiles.data());
  std::minstd_rand random(seed);
  for (size_t i = 0; i < bytes / 4; ++i) words[i] = uint32_t(random()) ^ uint32_t(random()) << 16;
  const size_t tile = kernels::tile_bytes(type), codes = kernels::tile_code_bytes(type);
  const bool plain = kernels::tile_type(type) == WeightType::f16;
  for (size_t at = 0; at < bytes; at += tile) {
    for (size_t i = plain ? 0 : codes; i < tile; i += 4) {
      uint32_t& word = words[(at + i) / 4];
      word = (word & (plain ? 0x87ff87ffu : 0x83ff83ffu)) | 0x20002000u;
    }
  }
  return tiles;
}

std::vector<float> random_values(size_t count, float deviation, uint32_t seed) {
  std::minstd_rand random(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace

LayerStack::LayerStack(kernels::Backend& backend, const Options& options)
    : backend_(backend), options_(options) {
  const LayerShape& s = options_.shape;
  for (int32_t l = 0; l < options_.layers; ++l) {
    weights_.push_back({random_matrix(s.q_width(), s.d_model),
                        random_matrix(s.kv_width(), s.d_model),
                        random_matrix(s.kv_width(), s.d_model),
                        random_matrix(s.d_model, s.q_width()), random_matrix(s.ffn, s.d_model),
                        random_matrix(s.ffn, s.d_model), random_matrix(s.d_model, s.ffn)});
  }
  const auto rows = size_t(options_.most_rows);
  main_ = {keep(random_values(rows * size_t(s.d_model), 1.0f, 1)), ScalarType::f32, s.d_model,
           nullptr};
  normed_ = scratch(s.d_model);
  q_ = scratch(s.q_width());
  attended_ = scratch(s.q_width());
  hidden_ = scratch(s.ffn);
  norm_weight_ = keep(random_values(size_t(s.d_model), 0.1f, 2));
  std::vector<float> table(size_t(options_.context) * size_t(s.head_dim));
  kernels::fill_rope_table(table.data(), options_.context, s.head_dim, 10000.0f);
  cos_sin_ = keep(table);
  make_pages();
}

std::byte* LayerStack::keep(size_t bytes) {
  buffers_.emplace_back(backend_.memory(), bytes, kernels::MemoryUse::buffers);
  if (!buffers_.back()) throw base::Failure(errc::out_of_memory, "no memory for the layers");
  return buffers_.back().data();
}

template <class T>
T* LayerStack::keep(const std::vector<T>& values) {
  std::byte* data = keep(values.size() * sizeof(T));
  backend_.memory().copy_in(data, values.data(), values.size() * sizeof(T));
  return reinterpret_cast<T*>(data);
}

size_t LayerStack::matrix_bytes(int32_t outputs, int32_t cols) const {
  return kernels::tiles_bytes(options_.type, outputs, cols);
}

WeightMatrix LayerStack::random_matrix(int32_t outputs, int32_t cols) {
  const size_t bytes = matrix_bytes(outputs, cols);
  const auto tiles = random_tiles(options_.type, bytes, uint32_t(buffers_.size() + 1));
  return {options_.type, outputs, cols, keep(tiles), kernels::WeightLayout::tiles};
}

RowView LayerStack::scratch(int32_t cols) {
  const size_t count = size_t(options_.most_rows) * size_t(cols);
  // 0x2c2c is 0.065 in FP16.
  return {keep(std::vector<uint16_t>(count, uint16_t{0x2c2c})), ScalarType::f16, cols, nullptr};
}

// A page has room for several layers, which take turns: enough to fill no cache.
void LayerStack::make_pages() {
  const LayerShape& s = options_.shape;
  cache_.layout = backend_.kv_layout(s.kv_heads, s.head_dim);
  page_bytes_ = cache_.layout.layer_bytes() * kCachedLayers;
  sequence_pages_ = (options_.context + kernels::kPagePositions - 1) / kernels::kPagePositions;
  const int32_t sequences = options_.prompt ? 1 : options_.most_rows;
  const int32_t count = sequences * sequence_pages_;
  std::byte* arena = keep(std::vector<std::byte>(size_t(count) * page_bytes_, std::byte{0x2c}));
  std::vector<std::byte*> pages;
  std::vector<int32_t> tables;
  for (int32_t i = 0; i < count; ++i) pages.push_back(arena + size_t(i) * page_bytes_);
  for (int32_t r = 0; r < sequences; ++r) tables.push_back(r * sequence_pages_);
  cache_.pages = keep(pages);
  cache_.tables = keep(tables);
  cache_.windows = keep(std::vector<int32_t>(tables.size(), 0));
}

void LayerStack::take_rows(int32_t rows) {
  rows_ = rows;
  const bool prompt = options_.prompt;
  std::vector<int32_t> tables, positions;
  for (int32_t r = 0; r < rows; ++r) {
    tables.push_back(prompt ? 0 : r);
    positions.push_back(prompt ? options_.context - rows + r : options_.context - 1);
  }
  cache_.row_table = keep(tables);
  cache_.positions = keep(positions);
  kernels::AttentionPlan plan;
  kernels::plan_attention(tables, positions, options_.shape.heads / options_.shape.kv_heads, plan);
  cache_.tiles = {};
  cache_.tiles.narrow_count = int32_t(plan.narrow.size());
  cache_.tiles.wide_count = int32_t(plan.wide.size());
  cache_.tiles.most_context = plan.most_context;
  if (!plan.narrow.empty()) cache_.tiles.narrow = keep(plan.narrow);
  if (!plan.wide.empty()) cache_.tiles.wide = keep(plan.wide);
}

kernels::RmsNormArgs LayerStack::norm() const {
  return {main_, normed_, norm_weight_, rows_, 1, options_.shape.d_model, 1e-5f, true};
}

void LayerStack::qkv(int32_t layer) {
  const Weights& w = weights_[size_t(layer)];
  kernels::KvView cache = cache_;
  cache.layer_offset = size_t(layer) % kCachedLayers * cache_.layout.layer_bytes();
  backend_.qkv({norm(),
                {w.q, normed_, q_, rows_},
                {w.k, normed_, q_, rows_},
                {w.v, normed_, q_, rows_},
                cache,
                cos_sin_,
                options_.shape.heads});
}

void LayerStack::attention(int32_t layer) {
  kernels::KvView cache = cache_;
  cache.layer_offset = size_t(layer) % kCachedLayers * cache_.layout.layer_bytes();
  backend_.attention({q_, attended_, cache, rows_, options_.shape.heads});
}

void LayerStack::output(int32_t layer) {
  backend_.linear_add_before({weights_[size_t(layer)].o, attended_, main_, rows_}, normed_, norm());
}

void LayerStack::hidden(int32_t layer) {
  const Weights& w = weights_[size_t(layer)];
  backend_.normed_ffn_hidden(norm(),
                             {kernels::FfnType::swiglu, w.gate, w.up, normed_, hidden_, rows_});
}

void LayerStack::down(int32_t layer) {
  backend_.linear_add_before({weights_[size_t(layer)].down, hidden_, main_, rows_}, normed_,
                             norm());
}

}  // namespace tinyloop::bench
