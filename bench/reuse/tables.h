// What `reuse_bench` measures: each function prints one table in Markdown.
#pragma once

#include <cstdint>
#include <vector>

#include "tinyloop/model.h"

namespace tinyloop::bench {

struct FirstTokenSettings {
  int32_t prefix = 512;  // positions
  int32_t decoded = 16;  // tokens of the running generation, and calls, that are averaged
};
void print_first_token(const Model& model, int32_t loops, int32_t rounds,
                       const FirstTokenSettings& settings);

struct ResumeSettings {
  int32_t prompt = 1024;                          // positions
  int32_t from = 4, to = 8;                       // loops
  std::vector<int32_t> tails = {1, 16, 64, 256};  // new tokens, rising, the first of them 1
};
void print_resume(const Model& model, int32_t rounds, const ResumeSettings& settings);

struct PoolSettings {
  int32_t prompt = 1024;
  std::vector<double> shares = {0.25, 0.5, 0.75, 0.9, 1.0};  // of the prompt, registered
  double layer_macs = 0;  // of one position in one layer's matrices; 0: usual_layer_macs
};
void print_pool(const Model& model, int32_t loops, int32_t rounds, const PoolSettings& settings);

struct MemorySettings {
  int32_t prefix = 512;
  int32_t generations = 64;
  int32_t decoded = 40;  // new tokens of each
};
void print_memory(const Model& model, int32_t loops, const MemorySettings& settings);

}  // namespace tinyloop::bench
