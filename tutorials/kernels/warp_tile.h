// A warp's part of a product on tensor cores: 64 x 32 sums, in fragments that its lanes' registers
// hold, for factors of bf16 in shared memory.
// Not here: how tiles come into shared memory: rungs 9 to 11 and the epilogues do.
// Chapter 12; PTX ISA, warp-level matrix instructions; cuda/launch/device_gpu.h has the layout.
#pragma once

#include "tutorials/kernels/ladder.h"
#include "tutorials/kernels/vectors.h"

namespace plangrad::cuda::kernels {

using bf16 = __nv_bfloat16;

/// The part of warp w of a block: 2 x 4 warps cover a tile of 128 x 128.
struct WarpTile {
  static constexpr int rows = 64, columns = 32;
  int row, column;  ///< the place of its first element in the tile
  /// A lane's four numbers of the fragment at each place (16 r, 8 c).
  float sums[rows / 16][columns / 8][4] = {};

  __device__ explicit WarpTile(int warp) : row(warp / 4 * rows), column(warp % 4 * columns) {}

  // [snippet multiply]
  /// sums += a b. Lane l points at row l % 16 of each fragment, and columns l / 16 * 8 and on.
  template <int height, int pitch_a, int depth, int pitch_b>
  __device__ void multiply(const bf16 (&a)[height][pitch_a], const bf16 (&b)[depth][pitch_b]) {
    const int y = threadIdx.x % 16, x = threadIdx.x % 32 / 16 * 8;
    PG_UNROLL
    for (int k = 0; k < depth; k += 16) {
      unsigned of_a[rows / 16][4];
      PG_UNROLL
      for (int r = 0; r < rows / 16; ++r) ldmatrix_x4(of_a[r], &a[row + 16 * r + y][k + x]);
      PG_UNROLL
      for (int c = 0; c < columns / 8; c += 2) {
        unsigned of_b[4];  // two fragments
        ldmatrix_x4_transposed(of_b, &b[k + y][column + 8 * c + x]);
        PG_UNROLL
        for (int r = 0; r < rows / 16; ++r) {
          mma_16816(sums[r][c], of_a[r], {of_b[0], of_b[1]});
          mma_16816(sums[r][c + 1], of_a[r], {of_b[2], of_b[3]});
        }
      }
    }
  }
  // [end snippet]

  /// Calls body(row, column, sum) for each of the lane's sums.
  template <class Body>
  __device__ void for_each(Body body) const {
    const int lane = threadIdx.x % 32;
    PG_UNROLL
    for (int i = 0; i < rows / 16 * columns / 8 * 4; ++i) {
      const int r = i / (columns / 2), c = i / 4 % (columns / 8), j = i % 4;
      body(row + 16 * r + lane / 4 + j / 2 * 8, column + 8 * c + lane % 4 * 2 + j % 2,
           sums[r][c][j]);
    }
  }
};

/// Writes a warp's sums to c, whose element (top,left) is the tile's first.
__device__ inline void write(const WarpTile& tile, const ProductOf<bf16>& p, int top, int left) {
  tile.for_each([&](int row, int column, float sum) {
    const int y = top + row, x = left + column;
    if (y < p.m && x < p.n) p.c[y * p.n + x] = sum;
  });
}

}  // namespace plangrad::cuda::kernels
