// What rungs with several stages share: the tiles of a step along k, and permission to have many.
// Not here: the order in which they are filled and read: rung 10 tells it.
// Chapter 12.
#pragma once

#include "tutorials/kernels/warp_tile.h"

namespace plangrad::cuda::kernels {

/// The tiles that a block multiplies in one step, with rows that are padded as in rung 9.
struct Stage {
  static constexpr int tile = 128, depth = 32, padding = 8;
  bf16 a[tile][depth + padding];
  bf16 b[depth][tile + padding];

  /// Starts to copy the tiles from column `start` of a, and row `start` of b, on.
  __device__ void begin(const ProductOf<bf16>& p, int top, int left, int start) {
    copy_tile<depth>(a, p.a, p.m, p.k, top, start);
    copy_tile<tile>(b, p.b, p.k, p.n, start, left);
  }
};

/// Launches a kernel with `bytes` of dynamic shared memory; more than 48 KiB must be asked for.
template <class Kernel, class... Arguments>
void launch_large(Kernel kernel, dim3 grid, int threads, int bytes, cudaStream_t stream,
                  const Arguments&... arguments) {
  PG_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  launch(kernel, grid, dim3(threads), bytes, stream, arguments...);
}

}  // namespace plangrad::cuda::kernels
