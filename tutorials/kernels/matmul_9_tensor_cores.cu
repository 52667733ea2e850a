// Matrix product, rung 9: tensor cores. A warp gives them fragments of a (16,16) and b (16,8) in
// bf16, of which each lane holds a few numbers, and adds the product to a fragment of c in f32.
// Not here: more than two buffers, which are the next rung.
// PTX ISA, warp-level matrix instructions.
#include "tutorials/kernels/warp_tile.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int tile = 128, depth = 32, threads = 256;
// The 8 rows of 16 bytes that ldmatrix loads at once are in different banks, as in rung 7.
constexpr int padding = 8;

__global__ void __launch_bounds__(threads) matmul_tensor_cores_kernel(ProductOf<bf16> p) {
  alignas(16) __shared__ bf16 tiles_a[2][tile][depth + padding];
  alignas(16) __shared__ bf16 tiles_b[2][depth][tile + padding];
  const int top = blockIdx.y * tile, left = blockIdx.x * tile;
  WarpTile mine(threadIdx.x / 32);
  auto begin = [&](int start) {
    const int buffer = start / depth % 2;
    copy_tile<depth>(tiles_a[buffer], p.a, p.m, p.k, top, start);
    copy_tile<tile>(tiles_b[buffer], p.b, p.k, p.n, start, left);
    cp_async_commit();
  };
  begin(0);
  for (int start = 0; start < p.k; start += depth) {
    cp_async_wait<0>();
    __syncthreads();
    begin(start + depth);
    const int buffer = start / depth % 2;
    mine.multiply(tiles_a[buffer], tiles_b[buffer]);
  }
  write(mine, p, top, left);
}

}  // namespace

void matmul_tensor_cores(const ProductOf<bf16>& p, cudaStream_t stream) {
  dim3 grid(blocks_for(p.n, tile), blocks_for(p.m, tile));
  launch(matmul_tensor_cores_kernel, grid, dim3(threads), 0, stream, p);
}

}  // namespace plangrad::cuda::kernels
