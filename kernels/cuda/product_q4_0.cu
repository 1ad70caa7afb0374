#include "kernels/cuda/product_kernels.cuh"

template struct tinyloop::kernels::ProductKernels<tinyloop::kernels::WeightType::q4_0>;
