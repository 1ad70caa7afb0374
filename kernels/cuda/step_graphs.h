// CUDA graphs of the steps that keep coming.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>

#include "kernels/cuda/launch_list.h"

namespace tinyloop::kernels {

// Starts the kernels of a list on `stream`. With `overlap`, one may begin before the one ahead of
// it has ended (programmatic dependent launch): see device_tools.cuh for the rules.
void start(const LaunchList& list, cudaStream_t stream, bool overlap);

// Thread rule: the replica's thread alone. The least recently used graph makes room for a new one.
// A graph that there is no memory for costs speed alone: its list runs kernel by kernel, and from
// then on there are no more graphs than there were.
class StepGraphs {
 public:
  StepGraphs() = default;
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  // Runs the list: kernel by kernel, or, where it keeps coming, as a graph. To make one takes as
  // long as some ten steps gain by it, so that lists which only come back now and then, as those of
  // requests of many depths do, are better off without.
  // Returns the number of launches that the host made. Throws Failure.
  uint64_t run(const LaunchList& list, cudaStream_t stream, bool overlap);
  void clear() noexcept;

 private:
  struct Entry {
    uint64_t hash;
    LaunchList list;
    cudaGraphExec_t graph;
  };

  // Whether a graph of the list has been started.
  bool replay(const LaunchList& list, cudaStream_t stream, bool overlap);
  bool keeps_coming(uint64_t hash);
  Entry* find(uint64_t hash, const LaunchList& list);
  // nullptr: no memory for it.
  Entry* capture(uint64_t hash, const LaunchList& list, cudaStream_t stream, bool overlap);
  void pop(std::list<Entry>::iterator entry) noexcept;

  static constexpr size_t kMostGraphs = 64;  // some 1 MB of host and device memory each
  static constexpr size_t kRemembered = 64;  // lists that were run without a graph, the last ones
  static constexpr ptrdiff_t kEnough = 6;    // times among them that a list has come

  std::list<Entry> graphs_;  // most recently used first
  size_t most_graphs_ = kMostGraphs;
  std::array<uint64_t, kRemembered> last_{};  // their hashes
  size_t runs_ = 0;
};

}  // namespace tinyloop::kernels
