// The ladder: each rung is one idea for a faster kernel, beside the plain version of that kernel.
// Not here: kernels that training uses; these are for reading, in the order of their numbers.
// Chapter 12; CUDA C++ Programming Guide, shared memory; Ba, Kiros and Hinton 2016 (layer norm).
//
// The room cuda/ladder climbs twice, from one thread for each result to what the backend does:
// matmul_1_plain.cu           a thread for each element, and nothing is read once only
// matmul_2_tiled.cu           shared memory; matmul_3_registers.cu: registers
// matmul_4_async.cu           the next tiles arrive while these are multiplied
// matmul_5_tensor_cores.cu    a warp multiplies small matrices in one instruction
// layer_norm_1_plain.cu       a thread for each row; layer_norm_2_warp.cu: a warp
// layer_norm_3_registers.cu   a row is read once; vectors.h: 16 bytes at a time, for the last rungs
// Two neighbouring files differ by one idea alone. tests/cuda/ladder_test.cpp checks each rung on
// the emulator, and tests/benchmarks/ladder.cpp says how fast each is on a GPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace paragrad::cuda::ladder {

/// c = a b, all row-major, in device memory; sums in f32.              a (m,k), b (k,n), c (m,n)
template <class T>
struct ProductOf {
  const T *a, *b;
  float* c;
  int m, n, k;
};
using Product = ProductOf<float>;

/// One thread for each element of c.
void matmul_plain(const Product& product, cudaStream_t stream);
/// A block shares tiles of a and b, so that each element is read 16 times less often.
void matmul_tiled(const Product& product, cudaStream_t stream);
/// A thread computes 8 x 8 elements in registers, so that shared memory is read 8 times less often.
void matmul_registers(const Product& product, cudaStream_t stream);
/// Loads of 16 bytes; the next tiles arrive while these are multiplied.
void matmul_async(const Product& product, cudaStream_t stream);
/// Tensor cores: a warp multiplies 16 x 16 by 16 x 8 numbers of bf16 in one instruction.
void matmul_tensor_cores(const ProductOf<__nv_bfloat16>& product, cudaStream_t stream);

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
/// A warp keeps its row in registers, and so reads it once; loads of 16 bytes.
/// throws: Error if a row has more than 2048 elements
void layer_norm_registers(const LayerNorm& norm, cudaStream_t stream);

}  // namespace paragrad::cuda::ladder
