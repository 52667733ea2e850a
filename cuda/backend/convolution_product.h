// The product that convolution and each of its gradients is. A block has 64 x 128 sums, and takes
// 32 (bf16) or 16 (f32) of their terms at a time, in two buffers: while it multiplies from one,
// each thread's next elements arrive in registers. bf16 goes to tensor cores; sums are in f32.
// Not here: how operands are gathered (convolution_tiles.h); the three problems (convolution.cu).
// Chapter 12; PTX ISA, matrix multiply-accumulate operation with mma.
#pragma once

#include <type_traits>

#include "cuda/backend/convolution_tiles.h"

namespace plangrad::cuda {

/// result[r,i] = sum over k of left[r,k] right[k,i]. If several blocks have a part of each sum,
/// part z is written below the parts before it.
template <class T, class U, bool backward, bool sums_places>
struct ConvProduct {
  Strided<const T> left;
  Windows<T, backward> right;
  Strided<U> result;
  int columns, depth, part;
};

/// The sums of thread (x,y) in f32: rows y + 16 i and columns x + 16 j of the block's.
template <bool sums_places>
struct PlainSums {
  float sums[4][8] = {};
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;

  __device__ int row(int i) const { return y + 16 * i; }
  __device__ int column(int j) const { return x + 16 * j; }
  __device__ float sum(int i, int j) const { return sums[i][j]; }

  template <class Left, class Right>
  __device__ void add(const Left& left, const Right& right) {
    for (int k = 0; k < conv_depth<float>; ++k) {
      float b[8];
      PG_UNROLL
      for (int j = 0; j < 8; ++j) b[j] = sums_places ? right[column(j)][k] : right[k][column(j)];
      PG_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float a = left[row(i)][k];
        PG_UNROLL
        for (int j = 0; j < 8; ++j) sums[i][j] += a * b[j];
      }
    }
  }
};

/// A lane's sums in bf16: its warp has 32 x 32 sums of the block's, in fragments of 16 x 8.
template <bool sums_places>
struct TensorCoreSums {
  float sums[2][4][4] = {};
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_row = warp / 4 * 32, first_column = warp % 4 * 32;

  __device__ int row(int i) const { return first_row + lane / 4 + 8 * i; }
  __device__ int column(int j) const { return first_column + 8 * (j / 2) + 2 * (lane % 4) + j % 2; }
  __device__ float sum(int i, int j) const { return sums[i / 2][j / 2][i % 2 * 2 + j % 2]; }

  template <class Left, class Right>
  __device__ void add(const Left& left, const Right& right) {
    PG_UNROLL
    for (int k = 0; k < conv_depth<__nv_bfloat16>; k += 16) {
      unsigned a[2][4], b[4];
      PG_UNROLL
      for (int r = 0; r < 2; ++r)
        ldmatrix_x4(a[r], &left[first_row + 16 * r + lane % 16][k + lane / 16 * 8]);
      PG_UNROLL
      for (int n = 0; n < 4; n += 2) {
        const int c = first_column + 8 * n;
        if constexpr (sums_places)
          ldmatrix_x4(b, &right[c + lane % 8 + lane / 16 * 8][k + lane / 8 % 2 * 8]);
        else
          ldmatrix_x4_transposed(b, &right[k + lane % 16][c + lane / 16 * 8]);
        PG_UNROLL
        for (int r = 0; r < 2; ++r) {
          mma_16816(sums[r][n], a[r], {b[0], b[1]});
          mma_16816(sums[r][n + 1], a[r], {b[2], b[3]});
        }
      }
    }
  }
};

/// The number of blocks whose registers a GPU's multiprocessor holds without spills.
template <class T, bool sums_places>
constexpr int conv_blocks = sizeof(T) == 2 && sums_places ? 1 : 2;

template <class T, class U, bool backward, bool sums_places>
__global__ void __launch_bounds__(conv_threads, conv_blocks<T, sums_places>)
    conv_product_kernel(ConvProduct<T, U, backward, sums_places> p) {
  using Right = RightTile<T, backward, sums_places>;
  alignas(16) __shared__ typename LeftTile<T>::Memory left_tiles[2];
  alignas(16) __shared__ typename Right::Memory right_tiles[2];
  const int begin = blockIdx.z * p.part, end = min(begin + p.part, p.depth);
  const int column = blockIdx.x * conv_columns;
  LeftTile<T> left(p.left, begin, end);
  Right right(p.right, sums_places ? column : begin, sums_places ? begin : column,
              sums_places ? end : p.columns);
  std::conditional_t<sizeof(T) == 2, TensorCoreSums<sums_places>, PlainSums<sums_places>> sums;
  left.read();
  right.read();
  for (int start = begin, buffer = 0; start < end; start += conv_depth<T>, buffer ^= 1) {
    left.write(left_tiles[buffer]);
    right.write(right_tiles[buffer]);
    __syncthreads();  // the tiles are complete, and no thread reads the other ones any more
    if (start + conv_depth<T> < end) {
      left.read();
      right.read();
    }
    sums.add(left_tiles[buffer], right_tiles[buffer]);
  }
  PG_UNROLL
  for (int j = 0; j < 8; ++j) {
    const int c = column + sums.column(j);
    if (c >= p.columns) continue;
    U* to = p.result.column(p.result.index(c)) + std::int64_t{blockIdx.z} * p.left.rows * p.columns;
    PG_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int r = blockIdx.y * conv_rows + sums.row(i);
      if (r < p.left.rows) to[r * p.result.pitch] = from_float<U>(sums.sum(i, j));
    }
  }
}

}  // namespace plangrad::cuda
