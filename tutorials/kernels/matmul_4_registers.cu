// Matrix product, rung 4: a thread computes 8 x 8 elements of c. For 64 multiplications, it reads 8
// numbers of a and 8 of b from shared memory; rung 3 needs 128.
// Not here: loads of several elements at once, which are the next rung.
// Volkov and Demmel 2008, "Benchmarking GPUs to tune dense linear algebra".
#include "cuda/launch/device.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int tile = 128, depth = 16;  // side of a block's part of c, and its step along k
constexpr int side = 16, threads = side * side, each = tile / side;

/// The element of a row-major matrix (height,width), or zero outside of it.
__device__ float element(const float* matrix, int height, int width, int row, int column) {
  return row < height && column < width ? matrix[row * width + column] : 0;
}

/// Thread (x,y) has rows y, y + 16, ... and columns x, x + 16, ... of the tile: neighbours read
/// neighbouring columns of tile_b, which are in different banks, and the same numbers of tile_a.
__global__ void __launch_bounds__(threads) matmul_registers_kernel(Product p) {
  __shared__ float tile_a[tile][depth], tile_b[depth][tile];
  const int x = threadIdx.x % side, y = threadIdx.x / side;
  const int top = blockIdx.y * tile, left = blockIdx.x * tile;
  float sums[each][each] = {};
  for (int start = 0; start < p.k; start += depth) {
    for (int i = threadIdx.x; i < tile * depth; i += threads) {
      const int row = i / depth, column = i % depth;
      tile_a[row][column] = element(p.a, p.m, p.k, top + row, start + column);
      tile_b[i / tile][i % tile] = element(p.b, p.k, p.n, start + i / tile, left + i % tile);
    }
    __syncthreads();
    PG_UNROLL
    for (int i = 0; i < depth; ++i) {
      // [snippet registers]
      float of_a[each], of_b[each];
      PG_UNROLL
      for (int j = 0; j < each; ++j) {
        of_a[j] = tile_a[y + side * j][i];
        of_b[j] = tile_b[i][x + side * j];
      }
      PG_UNROLL
      for (int r = 0; r < each; ++r) {
        PG_UNROLL
        for (int c = 0; c < each; ++c) sums[r][c] += of_a[r] * of_b[c];
      }
      // [end snippet]
    }
    __syncthreads();
  }
  PG_UNROLL
  for (int r = 0; r < each; ++r) {
    PG_UNROLL
    for (int c = 0; c < each; ++c) {
      const int row = top + y + side * r, column = left + x + side * c;
      if (row < p.m && column < p.n) p.c[row * p.n + column] = sums[r][c];
    }
  }
}

}  // namespace

void matmul_registers(const Product& p, cudaStream_t stream) {
  dim3 grid(blocks_for(p.n, tile), blocks_for(p.m, tile));
  launch(matmul_registers_kernel, grid, dim3(threads), 0, stream, p);
}

}  // namespace plangrad::cuda::kernels
