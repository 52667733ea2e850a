// Matrix product, rung 5: tensor cores. A warp gives them fragments of a (16,16) and b (16,8) in
// bf16, of which each lane holds a few numbers, and adds the product to a fragment of c in f32.
// Not here: cuBLAS's further steps: more buffers and, on an H100, instructions of four warps.
// PTX ISA, warp-level matrix instructions; cuda/launch/device_gpu.h has the fragments' layout.
#include "cuda/ladder/ladder.h"
#include "cuda/ladder/vectors.h"

namespace paragrad::cuda::ladder {

namespace {

using bf16 = __nv_bfloat16;

constexpr int tile = 128, depth = 32, threads = 256;
constexpr int warp_rows = 64, warp_columns = 32;  // a warp's part of the tile; 2 x 4 cover it
// Rows in shared memory are 8 elements longer than rows of the tiles, so that the 8 rows of 16
// bytes that ldmatrix loads at once are in different banks.
constexpr int padding = 8;

/// A lane's sums: 4 registers for the fragment of c at each place (16 r, 8 c) of the warp's part.
using Sums = float[warp_rows / 16][warp_columns / 8][4];

// [snippet fragments]
/// sums += a b, with a (64,32) and b (32,32); lane l points at (l % 16, l / 16 * 8) in each.
__device__ void multiply(const bf16* a, const bf16* b, Sums& sums) {
  PG_UNROLL
  for (int k = 0; k < depth; k += 16) {
    unsigned of_a[warp_rows / 16][4];
    PG_UNROLL
    for (int r = 0; r < warp_rows / 16; ++r)
      ldmatrix_x4(of_a[r], a + 16 * r * (depth + padding) + k);
    PG_UNROLL
    for (int c = 0; c < warp_columns / 8; c += 2) {
      unsigned of_b[4];  // two fragments
      ldmatrix_x4_transposed(of_b, b + k * (tile + padding) + 8 * c);
      PG_UNROLL
      for (int r = 0; r < warp_rows / 16; ++r) {
        mma_16816(sums[r][c], of_a[r], {of_b[0], of_b[1]});
        mma_16816(sums[r][c + 1], of_a[r], {of_b[2], of_b[3]});
      }
    }
  }
}
// [end snippet]

__global__ void __launch_bounds__(threads) matmul_tensor_cores_kernel(ProductOf<bf16> p) {
  alignas(16) __shared__ bf16 tiles_a[2][tile][depth + padding];
  alignas(16) __shared__ bf16 tiles_b[2][depth][tile + padding];
  const int top = blockIdx.y * tile, left = blockIdx.x * tile;
  auto begin = [&](int start) {
    const int buffer = start / depth % 2;
    copy_tile<depth>(tiles_a[buffer], p.a, p.m, p.k, top, start);
    copy_tile<tile>(tiles_b[buffer], p.b, p.k, p.n, start, left);
    cp_async_commit();
  };
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_row = warp / 4 * warp_rows, first_column = warp % 4 * warp_columns;
  Sums sums = {};
  begin(0);
  for (int start = 0; start < p.k; start += depth) {
    cp_async_wait<0>();
    __syncthreads();
    begin(start + depth);
    const int buffer = start / depth % 2;
    multiply(&tiles_a[buffer][first_row + lane % 16][lane / 16 * 8],
             &tiles_b[buffer][lane % 16][first_column + lane / 16 * 8], sums);
  }
  PG_UNROLL
  for (int i = 0; i < warp_rows / 16 * warp_columns / 8 * 4; ++i) {
    const int r = i / (warp_columns / 2), c = i / 4 % (warp_columns / 8), j = i % 4;
    const int row = top + first_row + 16 * r + lane / 4 + j / 2 * 8;
    const int column = left + first_column + 8 * c + lane % 4 * 2 + j % 2;
    if (row < p.m && column < p.n) p.c[row * p.n + column] = sums[r][c][j];
  }
}

}  // namespace

void matmul_tensor_cores(const ProductOf<bf16>& p, cudaStream_t stream) {
  dim3 grid(blocks_for(p.n, tile), blocks_for(p.m, tile));
  launch(matmul_tensor_cores_kernel, grid, dim3(threads), 0, stream, p);
}

}  // namespace paragrad::cuda::ladder
