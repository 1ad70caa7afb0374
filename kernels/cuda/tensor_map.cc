#include "kernels/cuda/tensor_map.h"

#include <cuda_runtime_api.h>

#include <string>

#include "kernels/cuda/cuda_check.h"

namespace tinyloop::kernels {

namespace {

// Asked of the runtime: the library does not link with the driver, which may be missing.
decltype(&cuTensorMapEncodeTiled) encode_function() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check_cuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                              cudaEnableDefault, &result),
             "cudaGetDriverEntryPointByVersion");
  if (result != cudaDriverEntryPointSuccess) {
    throw base::Failure(errc::replica_failed, "the driver has no cuTensorMapEncodeTiled");
  }
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

}  // namespace

CUtensorMap row_tensor_map(const RowView& x, int32_t rows, int32_t cols, int32_t box_rows) {
  static const auto encode = encode_function();
  constexpr cuuint32_t kBoxCols = 64;
  const cuuint64_t size[] = {cuuint64_t(cols), cuuint64_t(rows)};
  const cuuint64_t stride[] = {cuuint64_t(x.stride) * size_of(x.type)};
  const cuuint32_t box[] = {kBoxCols, cuuint32_t(box_rows)};
  const cuuint32_t step[] = {1, 1};
  CUtensorMap map{};
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, x.data, size, stride, box, step,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw base::Failure(errc::replica_failed,
                        "cuTensorMapEncodeTiled: error " + std::to_string(int(result)));
  }
  return map;
}

}  // namespace tinyloop::kernels
