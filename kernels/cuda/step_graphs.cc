#include "kernels/cuda/step_graphs.h"

#include <algorithm>
#include <iterator>

#include "kernels/cuda/cuda_check.h"

namespace tinyloop::kernels {

namespace {

constexpr size_t kLeastLaunches = 8;  // shorter lists gain nothing

// What the launches of `list` would be on `stream`, without running them.
cudaGraph_t record(const LaunchList& list, cudaStream_t stream, bool overlap) {
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    start(list, stream, overlap);
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  return graph;
}

cudaGraphExec_t instantiate(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(error, "cudaGraphInstantiate");
  return exec;
}

void start_one(const LaunchList& list, const KernelLaunch& launch, cudaStream_t stream,
               bool overlap) {
  cudaLaunchAttribute attributes[2];
  unsigned count = 0;
  if (overlap) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (launch.shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = launch.shape.cluster;
    attributes[count].val.clusterDim.y = 1;
    attributes[count++].val.clusterDim.z = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = launch.shape.grid;
  config.blockDim = launch.shape.block;
  config.dynamicSmemBytes = launch.shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  void* argument = list.argument(launch);
  check_cuda(cudaLaunchKernelExC(&config, launch.function, &argument), "cudaLaunchKernelExC");
}

}  // namespace

void start(const LaunchList& list, cudaStream_t stream, bool overlap) {
  for (size_t i = 0; i < list.size(); ++i) {
    start_one(list, list.launches()[i], stream, overlap && list.may_overlap(i));
  }
}

StepGraphs::~StepGraphs() {
  clear();
}

void StepGraphs::clear() noexcept {
  while (!graphs_.empty()) pop(graphs_.begin());
}

uint64_t StepGraphs::run(const LaunchList& list, cudaStream_t stream, bool overlap) {
  if (list.size() >= kLeastLaunches && replay(list, stream, overlap)) return 1;
  start(list, stream, overlap);
  return list.size();
}

bool StepGraphs::replay(const LaunchList& list, cudaStream_t stream, bool overlap) {
  const uint64_t hash = list.hash();
  Entry* entry = find(hash, list);
  if (!entry && keeps_coming(hash)) entry = capture(hash, list, stream, overlap);
  if (!entry) return false;
  const cudaError_t error = cudaGraphLaunch(entry->graph, stream);
  if (error == cudaErrorMemoryAllocation) {  // the first launch brings the graph to the device
    cudaGetLastError();
    pop(graphs_.begin());
    most_graphs_ = graphs_.size();
    return false;
  }
  check_cuda(error, "cudaGraphLaunch");
  return true;
}

bool StepGraphs::keeps_coming(uint64_t hash) {
  last_[runs_++ % kRemembered] = hash;
  return std::count(last_.begin(), last_.end(), hash) >= kEnough;
}

StepGraphs::Entry* StepGraphs::find(uint64_t hash, const LaunchList& list) {
  for (auto it = graphs_.begin(); it != graphs_.end(); ++it) {
    if (it->hash != hash || !(it->list == list)) continue;
    graphs_.splice(graphs_.begin(), graphs_, it);
    return &graphs_.front();
  }
  return nullptr;
}

StepGraphs::Entry* StepGraphs::capture(uint64_t hash, const LaunchList& list, cudaStream_t stream,
                                       bool overlap) {
  if (most_graphs_ == 0) return nullptr;
  if (graphs_.size() == most_graphs_) pop(std::prev(graphs_.end()));
  graphs_.push_front({hash, list, nullptr});
  try {
    graphs_.front().graph = instantiate(record(list, stream, overlap));
  } catch (const base::Failure& failure) {
    pop(graphs_.begin());
    if (failure.error().code != errc::out_of_memory) throw;  // the replica's end
    most_graphs_ = graphs_.size();
    return nullptr;
  }
  return &graphs_.front();
}

void StepGraphs::pop(std::list<Entry>::iterator entry) noexcept {
  if (entry->graph) cudaGraphExecDestroy(entry->graph);
  graphs_.erase(entry);
}

}  // namespace tinyloop::kernels
