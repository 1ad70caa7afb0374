// CUDA graphs of the steps that came more than once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <list>
#include <vector>

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

  // Runs the list: kernel by kernel when it is seen for the first time, from then on as a graph.
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
  bool seen_before(uint64_t hash);
  Entry* find(uint64_t hash, const LaunchList& list);
  // nullptr: no memory for it.
  Entry* capture(uint64_t hash, const LaunchList& list, cudaStream_t stream, bool overlap);
  void pop(std::list<Entry>::iterator entry) noexcept;

  static constexpr size_t kMostGraphs = 64;  // some 1 MB of host and device memory each

  std::list<Entry> graphs_;  // most recently used first
  size_t most_graphs_ = kMostGraphs;
  std::vector<uint64_t> seen_;
  size_t next_seen_ = 0;
};

}  // namespace tinyloop::kernels
