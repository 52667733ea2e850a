// The ladder: each rung adds one idea for a faster kernel; rung 1 is the plain version.
// Not here: kernels that training uses; these are for reading, in the order of their numbers.
// Chapter 12; CUDA C++ Programming Guide, shared memory; Ba, Kiros and Hinton 2016 (layer norm).
//
// The room cuda/ladder has two ladders, from one thread per result to the backend's techniques:
// matmul_1_plain.cu           one thread per element, without any reuse of what is read
// matmul_2_tiled.cu           shared memory; matmul_3_registers.cu: registers
// matmul_4_async.cu           the next tiles arrive while the present ones are multiplied
// matmul_5_tensor_cores.cu    a warp multiplies small matrices in one instruction
// layer_norm_1_plain.cu       one thread per row; layer_norm_2_warp.cu: one warp per row
// layer_norm_3_registers.cu   reads a row once; vectors.h: 16 bytes at a time, for the last rungs
// rungs.h                    the list of all rungs, which tests, benchmarks and pages walk
// Two neighbouring files differ by one idea only. tests/cuda/ladder_test.cpp checks each rung on
// the emulator, and tests/benchmarks/ladder.cpp measures the speed of each on a GPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace paragrad::cuda::ladder {

/// c = a b, all row-major in device memory; sums are in f32.           a (m,k), b (k,n), c (m,n)
template <class T>
struct ProductOf {
  const T *a, *b;
  float* c;
  int m, n, k;
};
using Product = ProductOf<float>;

/// Uses one thread per element of c.
void matmul_plain(const Product& product, cudaStream_t stream);
/// Shares tiles of a and b within a block, so that each element is read 16 times less often.
void matmul_tiled(const Product& product, cudaStream_t stream);
/// Computes 8 x 8 elements in a thread's registers: shared memory is read 8 times less often.
void matmul_registers(const Product& product, cudaStream_t stream);
/// Loads 16 bytes at a time; the next tiles arrive while the present ones are multiplied.
void matmul_async(const Product& product, cudaStream_t stream);
/// Uses tensor cores: a warp multiplies 16 x 16 by 16 x 8 numbers of bf16 in one instruction.
void matmul_tensor_cores(const ProductOf<__nv_bfloat16>& product, cudaStream_t stream);

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, with each row's mean and variance.
///                                                         x, y (rows,width), weight, bias (width)
struct LayerNorm {
  const float *x, *weight, *bias;
  float* y;
  int rows, width;
  float epsilon;
};

/// The epsilon of chapters and tests.
inline constexpr float layer_norm_epsilon = 1e-5f;

/// Uses one thread per row.
void layer_norm_plain(const LayerNorm& norm, cudaStream_t stream);
/// Uses one warp per row: neighbouring lanes read neighbouring elements, and sum by shuffles.
void layer_norm_warp(const LayerNorm& norm, cudaStream_t stream);
/// Keeps a row in a warp's registers, and so reads it once, 16 bytes at a time.
/// throws: Error if a row has more than 2048 elements
void layer_norm_registers(const LayerNorm& norm, cudaStream_t stream);

}  // namespace paragrad::cuda::ladder
