#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/cublas_handle.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/cuda_context.h"
#include "kernels/cuda/device_tools.cuh"
#include "kernels/cuda/gemm_product.h"

namespace tinyloop::kernels {

namespace {

// ---- Staged arrays ------------------------------------------------------------------------------

struct UploadArgs {
  const uint4* host;
  uint4* device;
  int64_t count;
};

// A kernel, not a copy: it takes part in graphs and overlapped starts like all others.
__global__ void upload_kernel(UploadArgs args) {
  wait_for_previous();
  release_next();
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.count; i += step) {
    args.device[i] = args.host[i];
  }
}

// Static and dynamic shared memory together may take 48 KiB without being asked for.
constexpr uint32_t kPlainSharedBytes = (48u << 10) - kStaticShared;

constexpr size_t kFirstWorkspace = size_t{8} << 20;
constexpr size_t kFirstArrivals = size_t{16} << 10;
constexpr size_t kFirstRowSquares = size_t{256} << 10;  // floats: 2048 rows of 2048 columns

// Without code of its own for 9.0, the device runs what was made for 8.0.
#ifdef TINYLOOP_CUDA_SM90A
constexpr bool kHasCodeFor90a = true;
#else
constexpr bool kHasCodeFor90a = false;
#endif

int make_current(int device) {
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  return device;
}

// Of the current device's code.
void check_registers(const void* function, int wanted) {
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, function), "cudaFuncGetAttributes");
  if (attributes.numRegs >= wanted) return;
  const char* name = "of unknown name";
  if (cudaFuncGetName(&name, function) != cudaSuccess) cudaGetLastError();
  throw base::Failure(errc::internal, std::string("kernel ") + name + " was compiled with " +
                                          std::to_string(attributes.numRegs) +
                                          " registers a thread, but its warp groups share out " +
                                          std::to_string(wanted) +
                                          ": they would wait for the rest for ever");
}

}  // namespace

CudaStream::CudaStream(int device) {
  make_current(device);
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

CudaStream::~CudaStream() {
  cudaStreamDestroy(stream_);
}

CudaContext::CudaContext(int ordinal, size_t memory_budget_bytes)
    : device_(ordinal),
      stream_(ordinal),
      memory_(ordinal, stream_.get(), memory_budget_bytes, *this) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  sm_count_ = properties.multiProcessorCount;
  has_warp_groups_ = kHasCodeFor90a && properties.major == 9;
  shared_limit_ = properties.sharedMemPerBlockOptin - kStaticShared;
  description_ = "cuda:" + std::to_string(ordinal) + " (" + properties.name + ", sm_" +
                 std::to_string(properties.major) + std::to_string(properties.minor) + ")";
  counters_ = new (memory_.share(sizeof(DeviceCounters))) DeviceCounters;
  // What steps need as a rule, so that they allocate nothing.
  workspace(kFirstWorkspace);
  arrivals(kFirstArrivals);
  row_squares(kFirstRowSquares);
}

CudaContext::~CudaContext() {
  cudaSetDevice(device_);  // for the members, too
  list_.clear();
  cudaStreamSynchronize(stream_.get());
}

// A failure is kept: whoever asked for the start may have had to swallow it (memory is given back
// without exceptions), and a step must not go on without its launches.
void CudaContext::start_pending() {
  if (failure_) std::rethrow_exception(failure_);
  if (list_.empty()) return;
  try {
    start_list();
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

void CudaContext::start_list() {
  // Whatever happens, nothing is started twice.
  struct Clearing {
    LaunchList& list;
    ~Clearing() { list.clear(); }
  } clearing{list_};
  make_current(device_);
  // The staged arrays travel ahead of the first kernel that could read them.
  memory_.take_uploads([this](const CudaMemory::Upload& upload) {
    auto args = argument_of<UploadArgs>();
    args.host = reinterpret_cast<const uint4*>(upload.host);
    args.device = reinterpret_cast<uint4*>(upload.device);
    args.count = int64_t(upload.bytes / sizeof(uint4));
    const auto blocks = unsigned(std::clamp<int64_t>((args.count + 255) / 256, 1, 32));
    list_.add_first(upload_kernel, {blocks, 256}, args);
  });
  uint64_t launches = list_.size();
  if (early_steps_ > 0) {
    start(list_, stream_.get(), has_warp_groups());
  } else {
    launches = graphs_.run(list_, stream_.get(), has_warp_groups());
    note_step(launches < list_.size());
  }
  host_launches_.fetch_add(launches, std::memory_order_relaxed);
}

void CudaContext::note_step(bool replayed) {
  constexpr int32_t kNewSteps = 8;     // more than a step that repeats takes to become a graph
  constexpr int32_t kEarlySteps = 64;  // then it is tried again
  new_steps_ = replayed ? 0 : new_steps_ + 1;
  if (new_steps_ < kNewSteps) return;
  new_steps_ = 0;
  early_steps_ = kEarlySteps;
}

void CudaContext::start_early() {
  if (early_steps_ > 0) start_pending();
}

void CudaContext::synchronise() {
  start_pending();
  if (early_steps_ > 0) --early_steps_;
  check_cuda(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
}

std::byte* CudaContext::workspace(size_t bytes) {
  grow(workspace_, bytes, "kernel work space");
  return workspace_.data();
}

uint32_t* CudaContext::arrivals(size_t count) {
  const size_t bytes = count * sizeof(uint32_t);
  if (grow(arrivals_, bytes, "arrival counters")) {
    check_cuda(cudaMemsetAsync(arrivals_.data(), 0, bytes, stream_.get()), "cudaMemsetAsync");
  }
  return arrivals_.as<uint32_t>();
}

float* CudaContext::row_squares(size_t count) {
  grow(row_squares_, count * sizeof(float), "square sums of rows");
  return row_squares_.as<float>();
}

void CudaContext::use_cublas(std::span<const char* const> names) {
  make_current(device_);
  cublas_ = std::make_unique<CublasHandle>(memory_, stream_.get(), names);
  workspace(kGemmScratchBytes);
}

std::string CudaContext::cublas_version() const {
  return cublas_->version();
}

void CudaContext::run(const Gemm& gemm) {
  TINYLOOP_CHECK(has_cublas());
  start_pending();
  make_current(device_);
  cublas_->run(gemm);
  host_launches_.fetch_add(1, std::memory_order_relaxed);
}

bool CudaContext::grow(DeviceBuffer& buffer, size_t bytes, const char* what) {
  if (buffer.bytes() >= bytes) return false;
  DeviceBuffer larger(memory_, bytes, MemoryUse::workspace);
  if (!larger) {
    throw base::Failure(errc::out_of_memory, std::string(what) + ": " + std::to_string(bytes) +
                                                 " bytes could not be allocated");
  }
  buffer = std::move(larger);
  return true;
}

void CudaContext::prepare(const void* function, uint32_t shared_bytes, int start_registers) {
  auto entry = shared_allowed_.find(function);
  if (entry != shared_allowed_.end() && entry->second >= shared_bytes) return;
  make_current(device_);
  if (entry == shared_allowed_.end()) {
    if (start_registers > 0) check_registers(function, start_registers);
    check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared),
               "cudaFuncSetAttribute");
    entry = shared_allowed_.emplace(function, kPlainSharedBytes).first;
  }
  if (entry->second >= shared_bytes) return;
  check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  int(shared_bytes)),
             "cudaFuncSetAttribute");
  entry->second = shared_bytes;
}

}  // namespace tinyloop::kernels
