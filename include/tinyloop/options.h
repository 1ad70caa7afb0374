// Options of a model, with their defaults and ranges; docs/options.md explains each at length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tinyloop/detail/export.h"

namespace tinyloop {

// How numbers are computed on the device. Results are reproducible to the bit within one mode, save
// in `fast`.
enum class ArithmeticMode : uint8_t {
  automatic,  // int8 on the CPU, f16 on a GPU
  int8,  // CPU: quantised weights meet activations of 8 bits, rounded in blocks of 32; K/V in FP16
  f32,   // CPU: activations, scratch and K/V in FP32, weights dequantised exactly: the reference
  f16,   // GPU: weights and activations meet in FP16, sums and the residual stream are FP32; K/V
         // FP16
  fast,  // GPU: as f16, but products of more than 128 rows go to cuBLAS, on FP16 copies of the
         // weights. Results may depend, in their last bits, on what else a pass computes
};

TINYLOOP_API const char* to_string(ArithmeticMode mode) noexcept;

// Which rows a replica computes together.
//   throughput   the most rows a second: rows that are done may wait for others, at most
//   hold_passes
//                passes, where it pays to read weights once for all of them
//   latency      tokens leave as soon as they are computed; while requests decode, prompts enter in
//                slices that leave the interval between two tokens below twice its usual length
//   fixed        every row leaves at the end of a cycle of hold_passes + 1 passes: to measure with
enum class Schedule : uint8_t { throughput, latency, fixed };

TINYLOOP_API const char* to_string(Schedule schedule) noexcept;

// A value out of range makes the load fail with errc::invalid_argument before the file is opened.
struct ModelOptions {
  // "cpu"; "cuda:N", the N-th CUDA device; "auto": "cuda:0" where it can be used, else "cpu". Or
  // several, separated by commas: replicas go to them in turn. Results are the same to the bit on
  // devices of one kind (ModelInfo::device).
  std::string device = "auto";
  // 0 .. 64 copies of the model that share its requests, each with memory, budgets, queue and
  // thread of its own: all options below are for each of them. 0: one for each device named.
  int32_t replicas = 0;
  ArithmeticMode mode = ArithmeticMode::automatic;
  int32_t max_seq_len = 2048;    // 1 .. 1,048,576 positions a request may use
  int32_t prefill_chunk = 0;     // 0 .. max_seq_len rows of scratch; 0: max_seq_len rows
  int32_t prefill_budget = 256;  // >= 1: prompt rows a pass may hold beside the decode rows
  // 1 .. 1,048,576: for how many of its max_tokens a request is promised K/V pages when it begins.
  // Beyond them it takes pages as it grows; where there are none, the newest requests make room for
  // the older ones, and are computed again later, to the same bits. max_seq_len: nobody ever has
  // to.
  int32_t reserve_tokens = 256;
  int32_t max_sequences = 64;  // 1 .. 1,024 requests in progress at once
  int32_t max_queued = 1024;   // 1 .. 32,768 accepted requests that have not begun
  Schedule schedule = Schedule::throughput;
  int32_t hold_passes = 7;  // 0 .. 63: passes for which rows may wait for company, at most
  int32_t cpu_threads = 0;  // 0 .. 256 threads of the CPU backend; 0: one per core, shared out
                            // among the replicas
  size_t cache_budget_bytes = size_t{4} << 30;  // K/V pages of all requests together
  int32_t max_handles = 1024;      // 1 .. 65,536 reuse handles and pool entries alive at once
  size_t handle_budget_bytes = 0;  // what they may hold in all; 0: cache_budget_bytes alone bounds
  size_t memory_budget_bytes = 0;  // everything the replica allocates; 0: no bound of ours
  // Mode fast alone: bytes of FP16 copies of matrices; 0: none. Unset: the environment variable
  // TINYLOOP_FP16_CACHE_BYTES, or, without it, what the loop block's matrices take.
  std::optional<size_t> fp16_cache_bytes = std::nullopt;
  // 0 .. 16,777,216 events of the replica's life, the latest ones, for Model::async_trace; 72 bytes
  // of host memory each. 0: off.
  int32_t trace_events = 0;
};

}  // namespace tinyloop
