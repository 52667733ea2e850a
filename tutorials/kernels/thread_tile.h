// A thread's part of a product in f32: 8 x 8 sums in registers, for factors in shared memory that
// it reads 16 bytes at a time.
// Not here: how tiles come into shared memory, and which part each thread has: rungs 5 to 8 do.
// Chapter 12; Volkov and Demmel 2008, "Benchmarking GPUs to tune dense linear algebra".
#pragma once

#include "tutorials/kernels/ladder.h"
#include "tutorials/kernels/vectors.h"

namespace plangrad::cuda::kernels {

/// The thread's elements of a block's tile: rows `row`, row + row_step, ..., and columns in two
/// groups of four, the first of which begins at `column`, the other group_step behind.
template <int row_step, int group_step>
struct ThreadTile {
  static constexpr int each = 8;
  int row, column;
  float sums[each][each] = {};

  /// sums += a b, four columns of a at a time.
  template <int rows, int pitch_a, int depth, int columns>
  __device__ void multiply(const float (&a)[rows][pitch_a], const float (&b)[depth][columns]) {
    PG_UNROLL
    for (int i = 0; i < depth; i += 4) {
      Floats<4> of_a[each];
      PG_UNROLL
      for (int r = 0; r < each; ++r) of_a[r] = load<Floats<4>>(&a[row + row_step * r][i]);
      PG_UNROLL
      for (int l = 0; l < 4; ++l) {
        PG_UNROLL
        for (int c = 0; c < each; c += 4) {
          const auto of_b = load<Floats<4>>(&b[i + l][column + group_step * (c / 4)]);
          PG_UNROLL
          for (int j = 0; j < 4 * each; ++j)
            sums[j / 4][c + j % 4] += of_a[j / 4].at[l] * of_b.at[j % 4];
        }
      }
    }
  }

  /// Writes the sums to c, whose element (top,left) is the tile's first.
  __device__ void write(const Product& p, int top, int left) const {
    PG_UNROLL
    for (int r = 0; r < each; ++r) {
      PG_UNROLL
      for (int c = 0; c < each; ++c) {
        const int y = top + row + row_step * r, x = left + column + group_step * (c / 4) + c % 4;
        if (y < p.m && x < p.n) p.c[y * p.n + x] = sums[r][c];
      }
    }
  }
};

}  // namespace plangrad::cuda::kernels
