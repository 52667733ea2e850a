// Matrix product, rung 4: two buffers of tiles. While a block multiplies from one buffer, the next
// tiles are copied to the other one, without passing through registers, 16 bytes at a time.
// Not here: tensor cores, which are the last rung.
// CUDA C++ Programming Guide, asynchronous data copies.
#include "cuda/ladder/ladder.h"
#include "cuda/ladder/vectors.h"

namespace paragrad::cuda::ladder {

namespace {

constexpr int tile = 128, depth = 16;
constexpr int side = 16, threads = side * side, each = tile / side;

/// The tile's column for column c of thread x; a thread has groups of four neighbouring columns.
__device__ int column_of(int x, int c) { return c / 4 * 4 * side + 4 * x + c % 4; }

/// The sums of thread (x,y): rows y, y + 16, ... of the tile, and 8 columns.
using Sums = float[each][each];

/// sums += a b, four columns of a at a time.
__device__ void multiply(const float (&a)[tile][depth], const float (&b)[depth][tile], int x, int y,
                         Sums& sums) {
  PG_UNROLL
  for (int i = 0; i < depth; i += 4) {
    Floats<4> of_a[each];
    PG_UNROLL
    for (int r = 0; r < each; ++r) of_a[r] = load<Floats<4>>(&a[y + side * r][i]);
    PG_UNROLL
    for (int l = 0; l < 4; ++l) {
      PG_UNROLL
      for (int c = 0; c < each; c += 4) {
        const auto of_b = load<Floats<4>>(&b[i + l][column_of(x, c)]);
        PG_UNROLL
        for (int j = 0; j < 4 * each; ++j)
          sums[j / 4][c + j % 4] += of_a[j / 4].at[l] * of_b.at[j % 4];
      }
    }
  }
}

__global__ void __launch_bounds__(threads) matmul_async_kernel(Product p) {
  alignas(16) __shared__ float tiles_a[2][tile][depth];
  alignas(16) __shared__ float tiles_b[2][depth][tile];
  const int x = threadIdx.x % side, y = threadIdx.x / side;
  const int top = blockIdx.y * tile, left = blockIdx.x * tile;
  // [snippet buffers]
  auto begin = [&](int start) {
    const int buffer = start / depth % 2;
    copy_tile<depth>(tiles_a[buffer], p.a, p.m, p.k, top, start);
    copy_tile<tile>(tiles_b[buffer], p.b, p.k, p.n, start, left);
    cp_async_commit();
  };
  Sums sums = {};
  begin(0);
  for (int start = 0; start < p.k; start += depth) {
    cp_async_wait<0>();  // this thread's copies have arrived
    __syncthreads();     // all threads' copies have arrived, and the other buffer is free
    begin(start + depth);
    // [end snippet]
    const int buffer = start / depth % 2;
    multiply(tiles_a[buffer], tiles_b[buffer], x, y, sums);
  }
  PG_UNROLL
  for (int r = 0; r < each; ++r) {
    PG_UNROLL
    for (int c = 0; c < each; ++c) {
      const int row = top + y + side * r, column = left + column_of(x, c);
      if (row < p.m && column < p.n) p.c[row * p.n + column] = sums[r][c];
    }
  }
}

}  // namespace

void matmul_async(const Product& p, cudaStream_t stream) {
  dim3 grid(blocks_for(p.n, tile), blocks_for(p.m, tile));
  launch(matmul_async_kernel, grid, dim3(threads), 0, stream, p);
}

}  // namespace paragrad::cuda::ladder
