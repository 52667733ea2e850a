// The ladder: each rung adds one idea for a faster kernel; rung 1 is the plain version.
// Not here: kernels that training uses; these are for reading, in the order of their numbers.
// Chapter 12; CUDA C++ Programming Guide, shared memory; Ba, Kiros and Hinton 2016 (layer norm).
//
// The room tutorials/kernels has a ladder for each of several tasks, from one thread per result to
// the backend's techniques. Two neighbouring files differ by one idea only:
// matmul_1_plain.cu ...       products, up to tensor cores and Hopper's own instructions
// epilogue_1_apart.cu ...     products that end with a bias and GELU (gelu.h)
// layer_norm_1_plain.cu ...   sums of rows; also softmax_1_plain.cu ...; column_sum_1_plain.cu ...
// attention_1_plain.cu ...    two products with a softmax between them (online.h: one in parts)
// vectors.h                   16 bytes at a time; thread_tile.h, warp_tile.h, stages.h: products
// block_order.h               which block comes next, for the L2 cache; tma.h: Hopper's copies
// rungs.h                     the list of all rungs, which tests, benchmarks and pages walk
// tests/cuda/ladder_test.cpp checks each rung on the emulator, and tests/benchmarks/ladder.cpp
// measures the speed of each on a GPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace plangrad::cuda::kernels {

/// c = a b, all row-major in device memory; sums are in f32.           a (m,k), b (k,n), c (m,n)
template <class T>
struct ProductOf {
  const T *a, *b;
  float* c;
  int m, n, k;
};
using Product = ProductOf<float>;

/// Uses one thread per element of c; neighbours have neighbouring rows.
void matmul_plain(const Product& product, cudaStream_t stream);
/// Gives neighbouring threads neighbouring columns, which lie side by side in memory.
void matmul_coalesced(const Product& product, cudaStream_t stream);
/// Shares tiles of a and b within a block, so that each element is read 16 times less often.
void matmul_tiled(const Product& product, cudaStream_t stream);
/// Computes 8 x 8 elements in a thread's registers: shared memory is read 8 times less often.
void matmul_registers(const Product& product, cudaStream_t stream);
/// Loads 16 bytes at a time.
void matmul_vectors(const Product& product, cudaStream_t stream);
/// Gives a warp a part of c that is nearly square, so that its threads share what they read.
void matmul_warp_tiles(const Product& product, cudaStream_t stream);
/// Pads rows in shared memory, so that those that are read together are in different banks.
void matmul_padding(const Product& product, cudaStream_t stream);
/// Copies the next tiles while the present ones are multiplied.
void matmul_async(const Product& product, cudaStream_t stream);
/// Uses tensor cores: a warp multiplies 16 x 16 by 16 x 8 numbers of bf16 in one instruction.
void matmul_tensor_cores(const ProductOf<__nv_bfloat16>& product, cudaStream_t stream);
/// Has three steps' tiles on their way while a fourth is multiplied.
void matmul_stages(const ProductOf<__nv_bfloat16>& product, cudaStream_t stream);
/// Lets blocks that run at the same time share rows of a and columns of b in the L2 cache.
void matmul_block_order(const ProductOf<__nv_bfloat16>& product, cudaStream_t stream);
/// Uses Hopper's TMA and wgmma.
/// throws: Error if rows of a and b are no multiples of 16 bytes, or the build or the GPU has none
void matmul_hopper(const ProductOf<__nv_bfloat16>& product, cudaStream_t stream);
/// Why this build has no matmul_hopper; nothing if it has.
extern const char* const hopper_is_absent;

/// c = gelu(a b + bias)                                                                  bias (n)
struct Epilogue {
  ProductOf<__nv_bfloat16> product;
  const __nv_bfloat16* bias;
};

/// Multiplies first; a second kernel reads c again.
void epilogue_apart(const Epilogue& epilogue, cudaStream_t stream);
/// Applies bias and GELU to the sums in registers.
void epilogue_fused(const Epilogue& epilogue, cudaStream_t stream);

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

/// y = softmax of each row of x                                                  x, y (rows,width)
struct Softmax {
  const float* x;
  float* y;
  int rows, width;
};

/// Uses one thread per row, and three passes over it.
void softmax_plain(const Softmax& softmax, cudaStream_t stream);
/// Finds the largest number and the sum in one pass.
void softmax_online(const Softmax& softmax, cudaStream_t stream);
/// Uses one warp per row.
void softmax_warp(const Softmax& softmax, cudaStream_t stream);
/// Keeps a row in a warp's registers.
/// throws: Error if a row has more than 2048 elements
void softmax_registers(const Softmax& softmax, cudaStream_t stream);

/// y = the sum of x over its rows                                     x (rows,columns), y (columns)
struct ColumnSum {
  static constexpr int part_rows = 128;
  const float* x;
  float* y;
  float*
      parts;  ///< scratch for the sums of each 128 rows             (rows / 128 rounded up,columns)
  int rows, columns;
};

/// Uses one thread per column.
void column_sum_plain(const ColumnSum& sum, cudaStream_t stream);
/// Uses a block of 8 warps for 32 columns.
void column_sum_block(const ColumnSum& sum, cudaStream_t stream);
/// Uses such a block for each 128 rows, and a second launch for what they have found.
void column_sum_parts(const ColumnSum& sum, cudaStream_t stream);
/// Reads 16 bytes at a time.
void column_sum_vectors(const ColumnSum& sum, cudaStream_t stream);

/// y = softmax(scale q k^T) v, for each head                           q, k, v, y (heads,time,size)
template <class T>
struct AttentionOf {
  static constexpr int size = 64;
  const T *q, *k, *v;
  float* y;
  float* scores;  ///< scratch for those kernels that keep them                   (heads,time,time)
  int heads, time;

  /// 1 / sqrt(size)
  __host__ __device__ static constexpr float scale() { return 0.125f; }
};
using Attention = AttentionOf<float>;

/// Keeps all scores in memory.
void attention_plain(const Attention& attention, cudaStream_t stream);
/// Uses a thread per query, and takes keys and values tile by tile.
void attention_online(const Attention& attention, cudaStream_t stream);
/// Uses tensor cores, and keeps scores in fragments.
void attention_tensor_cores(const AttentionOf<__nv_bfloat16>& attention, cudaStream_t stream);

/// The gradients of attention's q, k and v, from that of y.           q, k, v, dy (heads,time,size)
struct AttentionBackward {
  const float *q, *k, *v, *dy;
  float* gradients;  ///< dq, dk, dv                                         (3,heads,time,size)
  float* scratch;    ///< room for all pairs, or all queries        (2,heads,time,time or 1)
  int heads, time;

  __host__ __device__ static constexpr float scale() { return Attention::scale(); }
  __device__ float* dq() const { return gradients; }
  __device__ float* dk() const { return gradients + heads * time * Attention::size; }
  __device__ float* dv() const { return gradients + 2 * heads * time * Attention::size; }
  __device__ float* shares() const { return scratch; }
  __device__ float* slopes() const { return scratch + heads * time * time; }  ///< dscores
  __device__ float* normalizers() const { return scratch; }          ///< log of the sum of e^score
  __device__ float* dots() const { return scratch + heads * time; }  ///< y dy
};

/// Keeps shares and slopes in memory.
void attention_backward_plain(const AttentionBackward& attention, cudaStream_t stream);
/// Computes shares again, for queries and for keys.
void attention_backward_recomputed(const AttentionBackward& attention, cudaStream_t stream);

}  // namespace plangrad::cuda::kernels
