// The ladder: each rung is one idea for a faster kernel, beside the plain version of the same.
// Not here: kernels that training uses; these are for reading, in the order of their numbers.
// CUDA C++ Programming Guide, shared memory; Ba, Kiros and Hinton 2016 (layer norm).
#pragma once

#include <cuda_runtime.h>

namespace paragrad::cuda::ladder {

/// c = a b, all row-major in f32, in device memory.                    a (m,k), b (k,n), c (m,n)
struct Product {
  const float *a, *b;
  float* c;
  int m, n, k;
};

/// One thread for each element of c.
void matmul_plain(const Product& product, cudaStream_t stream);
/// A block shares tiles of a and b, so that each element is read 16 times less often.
void matmul_tiled(const Product& product, cudaStream_t stream);

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, mean and variance of each row.
///                                                         x, y (rows,width), weight, bias (width)
struct LayerNorm {
  const float *x, *weight, *bias;
  float* y;
  int rows, width;
  float epsilon;
};

/// One thread for each row.
void layer_norm_plain(const LayerNorm& norm, cudaStream_t stream);
/// One warp for each row: neighbours read neighbours, and add up by shuffles.
void layer_norm_warp(const LayerNorm& norm, cudaStream_t stream);

}  // namespace paragrad::cuda::ladder
