// An order of blocks that the L2 cache likes, for the upper rungs of the product.
// Not here: kernels. Chapter 12.
// Tillet, Kung and Cox 2019, "Triton" (grouped order of programs in its matrix products).
#pragma once

#include "cuda/launch/device.h"

namespace plangrad::cuda::kernels {

// [snippet order]
constexpr int band = 8;  // rows of tiles

/// The tile of a block, (column, row). Blocks start in the order of their numbers: down a column of
/// a band, then down its next column.
__device__ inline int2 place_of(int block, int tile_rows, int tile_columns) {
  const int first = block / (band * tile_columns) * band, height = min(band, tile_rows - first);
  const int within = block - first * tile_columns;
  return make_int2(within / height, first + within % height);
}
// [end snippet]

}  // namespace plangrad::cuda::kernels
